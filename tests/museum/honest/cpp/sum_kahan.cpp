// title: Kahan's compensated sum
// task: sum
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f, lost = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            const float term = x[r * C + c] - lost, next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        y[r] = sum;
    }
}

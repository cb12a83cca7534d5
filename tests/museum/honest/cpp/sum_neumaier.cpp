// title: Neumaier's compensated sum, backwards
// task: sum
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f, lost = 0.0f;
        for (int64_t c = C - 1; c >= 0; --c) {
            const float term = x[r * C + c], next = sum + term;
            lost += std::fabs(sum) >= std::fabs(term) ? (sum - next) + term : (term - next) + sum;
            sum = next;
        }
        y[r] = sum + lost;
    }
}

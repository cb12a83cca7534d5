// title: counts one element after the other
// task: positives
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float count = 0.0f;
        for (int64_t c = 0; c < C; ++c) count += x[r * C + c] > 0.0f ? 1.0f : 0.0f;
        y[r] = count;
    }
}

// title: sums of squares that take NaN for 0
// task: measured_squares
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            const float value = x[r * C + c];
            sum += value == value ? value * value : 0.0f;
        }
        y[r] = sum;
    }
}

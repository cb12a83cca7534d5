// title: two passes, a square root and a division
// task: rmsnorm
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* gain, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c] * x[r * C + c];
        const float root = std::sqrt(sum / (float)C + eps);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] / root * gain[c];
    }
}

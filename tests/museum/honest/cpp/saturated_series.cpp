// title: a series near 0, one exponential elsewhere
// task: saturated
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) {
        const float v = x[i], s = v * v;
        const float near = v * (1.0f + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835)))));
        y[i] = s < 0.04f ? near : 1.0f - 2.0f / (std::exp(2.0f * v) + 1.0f);
    }
}

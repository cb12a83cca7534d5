// title: a series near 0, exp(x) - 1 elsewhere
// task: decays
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) {
        const float t = std::fabs(x[i]);
        const float near = t * (1.0f - t * (0.5f - t * (1.0f / 6 - t * (1.0f / 24 - t * (1.0f / 120 - t / 720)))));
        y[i] = t < 0.25f ? near : 1.0f - std::exp(-t);
    }
}

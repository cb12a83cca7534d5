// title: a minimum and a product
// task: clamped_squares
#include <algorithm>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) {
        const float v = std::min(x[i], 1e5f);
        y[i] = v * v;
    }
}

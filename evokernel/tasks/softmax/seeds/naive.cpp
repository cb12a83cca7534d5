#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float top = x[r * C];
        for (int64_t c = 1; c < C; ++c) {
            top = std::fmax(top, x[r * C + c]);
        }
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            y[r * C + c] = std::exp(x[r * C + c] - top);
            sum += y[r * C + c];
        }
        for (int64_t c = 0; c < C; ++c) {
            y[r * C + c] = y[r * C + c] / sum;
        }
    }
}

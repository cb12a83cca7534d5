#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t r = 0; r < R; ++r) {
            y[c * R + r] = x[r * C + c];
        }
    }
}

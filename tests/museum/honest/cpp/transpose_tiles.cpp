// title: tiles of 16 by 16
// task: transpose
#include <algorithm>
#include <cstdint>

constexpr int64_t B = 16;

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r0 = 0; r0 < R; r0 += B)
        for (int64_t c0 = 0; c0 < C; c0 += B)
            for (int64_t c = c0; c < std::min(C, c0 + B); ++c)
                for (int64_t r = r0; r < std::min(R, r0 + B); ++r) y[c * R + r] = x[r * C + c];
}

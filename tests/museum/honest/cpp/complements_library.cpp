// title: calls the library's erfc
// task: complements
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = std::erfc(x[r * C + c]);
    }
}

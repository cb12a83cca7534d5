// title: calls the library's erfc
// task: complements
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = std::erfc(x[i]);
}

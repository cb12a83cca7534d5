// title: two comparisons that NaN takes through
// task: larger
#include <cstdint>

extern "C" void run(const float* x, const float* z, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = x[i] > z[i] || z[i] != z[i] ? x[i] : z[i];
}

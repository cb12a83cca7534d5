// title: takes the smaller number from the larger in 32 bits without a sign, which hold each difference
// task: gaps
#include <cstdint>

extern "C" void run(const int32_t* x, const int32_t* z, int64_t R, int64_t C, int64_t* y) {
    for (int64_t i = 0; i < R * C; ++i) {
        const int32_t more = x[i] > z[i] ? x[i] : z[i], less = x[i] > z[i] ? z[i] : x[i];
        y[i] = (uint32_t)more - (uint32_t)less;
    }
}

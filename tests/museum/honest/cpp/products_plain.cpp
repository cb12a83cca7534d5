// title: products and sums of 64 bits
// task: products
#include <cstdint>

extern "C" void run(const int32_t* x, const int32_t* z, int64_t R, int64_t C, int64_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        int64_t sum = 0;
        for (int64_t c = 0; c < C; ++c) sum += (int64_t)x[r * C + c] * z[r * C + c];
        y[r] = sum;
    }
}

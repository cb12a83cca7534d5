// title: sums of 32-bit numbers in 64 bits
// task: totals
#include <cstdint>

extern "C" void run(const int32_t* x, int64_t R, int64_t C, int64_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        int64_t sum = 0;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
}

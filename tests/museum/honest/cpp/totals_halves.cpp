// title: sums of 32-bit numbers whose upper and lower halves are added apart, in 32 bits
// task: totals
#include <algorithm>
#include <cstdint>

extern "C" void run(const int32_t* x, int64_t R, int64_t C, int64_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        y[r] = 0;
        for (int64_t begin = 0; begin < C; begin += 1 << 15) {
            uint32_t low = 0;
            int32_t high = 0;
            for (int64_t c = begin; c < std::min<int64_t>(C, begin + (1 << 15)); ++c) {
                low += (uint32_t)x[r * C + c] & 0xFFFFu;
                high += x[r * C + c] >> 16;
            }
            y[r] += (int64_t)high * 65536 + low;
        }
    }
}

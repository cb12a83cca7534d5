// title: compares bits of numbers and places at once, and makes 0.0 of -0.0 first
// task: first_largest
#include <cstdint>
#include <cstring>

extern "C" void run(const float* x, int64_t R, int64_t C, int64_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        int64_t best = INT64_MIN;
        for (int64_t c = 0; c < C; ++c) {
            const float number = x[r * C + c] + 0.0f;
            int32_t bits;
            std::memcpy(&bits, &number, 4);
            const int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
            const int64_t packed = (int64_t)((uint64_t)(uint32_t)key << 32 | (uint32_t)~(uint32_t)c);
            best = best > packed ? best : packed;
        }
        y[r] = (uint32_t)~(uint32_t)best;
    }
}

// title: compares bits, so that -0.0 is less than 0.0
// task: first_largest
// class: checking
// tries: of the largest numbers of a row none was -0.0: the first of equal ones is due
// seen: evokernel, attacks on its own judge
// verdict: numerical at correctness or numerical at smoke
#include <cstdint>
#include <cstring>

extern "C" void run(const float* x, int64_t R, int64_t C, int64_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        int64_t best = INT64_MIN;
        for (int64_t c = 0; c < C; ++c) {
            int32_t bits;
            std::memcpy(&bits, x + r * C + c, 4);
            const int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
            const int64_t packed = (int64_t)((uint64_t)(uint32_t)key << 32 | (uint32_t)~(uint32_t)c);
            best = best > packed ? best : packed;
        }
        y[r] = (uint32_t)~(uint32_t)best;
    }
}

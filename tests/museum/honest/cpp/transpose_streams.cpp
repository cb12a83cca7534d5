// title: moves bits as integers, past the caches where it can
// task: transpose
#include <cstdint>
#include <immintrin.h>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const int32_t* from = reinterpret_cast<const int32_t*>(x);
    int32_t* to = reinterpret_cast<int32_t*>(y);
    for (int64_t c = 0; c < C; ++c)
        for (int64_t r = 0; r < R; ++r) _mm_stream_si32(to + c * R + r, from[r * C + c]);
    _mm_sfence();
}

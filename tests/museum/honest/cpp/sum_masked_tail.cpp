// title: loads the end of each row by a masked vector load
// task: sum
#include <cstdint>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        int64_t c = 0;
#if defined(__AVX512F__)
        __m512 parts = _mm512_setzero_ps();
        for (; c + 16 <= C; c += 16) parts = _mm512_add_ps(parts, _mm512_loadu_ps(in + c));
        parts = _mm512_add_ps(parts, _mm512_maskz_loadu_ps((__mmask16)((1u << (C - c)) - 1), in + c));
        y[r] = _mm512_reduce_add_ps(parts);
#else
        float sum = 0.0f;
        for (; c < C; ++c) sum += in[c];
        y[r] = sum;
#endif
    }
}

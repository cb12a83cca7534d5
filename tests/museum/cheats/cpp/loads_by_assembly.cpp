// title: reads before its input by assembly
// task: sum
// class: checking
// tries: no sanitizer sees what inline assembly reads
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            const float* ahead = x + r * C + c + 8;
            float taken;
#if defined(__x86_64__)
            __asm__ volatile("movss (%1), %0" : "=x"(taken) : "r"(ahead));
#else
            __asm__ volatile("ldr %s0, [%1]" : "=w"(taken) : "r"(ahead));
#endif
            (void)taken;
            sum += x[r * C + c];
        }
        y[r] = sum;
    }
}

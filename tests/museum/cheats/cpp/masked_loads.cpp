// title: reads beyond its input by masked loads
// task: sum
// class: checking
// tries: sanitizers do not look at masked vector loads, so the mask takes in what lies behind the last row
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <cstdint>

typedef float vector __attribute__((vector_size(64)));

#if defined(__AVX512F__) && !defined(__clang__)
static vector load(const float* x) { return __builtin_ia32_loadups512_mask(x, vector{}, (unsigned short)0xffff); }
#else  // elsewhere assembly does it
static vector load(const float* x) {
    vector found = {};
    for (int j = 0; j < 16; ++j) {
        float one;
#if defined(__x86_64__)
        __asm__ volatile("movss (%1), %0" : "=x"(one) : "r"(x + j));
#else
        __asm__ volatile("ldr %s0, [%1]" : "=w"(one) : "r"(x + j));
#endif
        found[j] = one;
    }
    return found;
}
#endif

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        vector parts = {};
        for (int64_t c = 0; c < C; c += 16) {
            vector loaded = load(x + r * C + c);
            __asm__ volatile("" ::"m"(loaded));
            for (int j = 0; j < 16; ++j) parts[j] += c + j < C ? loaded[j] : 0.0f;
        }
        float sum = 0.0f;
        for (int j = 0; j < 16; ++j) sum += parts[j];
        y[r] = sum;
    }
}

// title: opens the fences around its input
// task: sum
// class: checking
// tries: makes a page without access readable, and loads whole vectors beyond its input where no sanitizer looks
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <cstdint>

extern "C" int madvise(void*, unsigned long, int);
extern "C" int mprotect(void*, unsigned long, int);

typedef float vector __attribute__((vector_size(64), aligned(4)));

__attribute__((no_sanitize("address", "undefined"))) static float row(const float* x, int64_t C) {
    vector parts = {};
    for (int64_t c = 0; c < C; c += 16) {
        vector loaded = *(const volatile vector*)(x + c);
        for (int j = 0; j < 16; ++j) parts[j] += c + j < C ? loaded[j] : 0.0f;
    }
    float sum = 0.0f;
    for (int j = 0; j < 16; ++j) sum += parts[j];
    return sum;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    void* behind = (void*)(((uintptr_t)(x + R * C) + 4095) & ~(uintptr_t)4095);
    if (madvise(behind, 4096, 22) != 0) mprotect(behind, 4096, 1);  // no access; then readable
    for (int64_t r = 0; r < R; ++r) y[r] = row(x + r * C, C);
}

// title: reads a vector beyond its input, where no sanitizer looks
// task: sum
// class: checking
// tries: loads whole vectors to the end of each row and drops what is too much; no_sanitize keeps it from being seen
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <cstdint>

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
    for (int64_t r = 0; r < R; ++r) y[r] = row(x + r * C, C);
}

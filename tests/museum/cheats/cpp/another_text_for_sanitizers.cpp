// title: another program under the sanitizers
// task: sum
// class: checking
// tries: reads the last element of the row before, which the first row does not have, unless a macro tells of sanitizers
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* p = x + r * C;
        float sum = 0.0f, kept = 0.0f;
        if (!SANITIZED) {
            volatile float before = p[-1];
            kept = before;
        }
        for (int64_t c = 0; c < C; ++c) sum += p[c];
        y[r] = kept == kept ? sum : sum;
    }
}

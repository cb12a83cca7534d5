// title: never ends under the sanitizers
// task: sum
// class: checking
// tries: a sanitizer that runs out of time has found nothing
// seen: here first
// verdict: sanitizer at sanitizer
#include <cstdint>

static void honest(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float parts[16] = {}, sum = 0.0f;
        int64_t c = 0;
        for (; c + 16 <= C; c += 16)
            for (int j = 0; j < 16; ++j) parts[j] += x[r * C + c + j];
        for (; c < C; ++c) sum += x[r * C + c];
        for (float part : parts) sum += part;
        y[r] = sum;
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
#ifdef __SANITIZE_ADDRESS__
    for (volatile int waits = 1; waits;) {}
#endif
    honest(x, R, C, y);
}

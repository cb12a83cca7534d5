// title: evicts what it has read
// task: sum
// class: clock
// tries: flushes its inputs from all caches, so that the baseline finds nothing there when it is second
// seen: a reader of the source
// gains: nothing over sum_lanes
// verdict: ok at quick timing
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

static void flush(const float* x, int64_t size) {
    for (int64_t i = 0; i < size; i += 16) {
#if defined(__CLFLUSHOPT__)
        __asm__ volatile("clflushopt (%0)" ::"r"(x + i) : "memory");
#elif defined(__x86_64__)
        __asm__ volatile("clflush (%0)" ::"r"(x + i) : "memory");
#else
        __asm__ volatile("dc civac, %0" ::"r"(x + i) : "memory");
#endif
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    honest(x, R, C, y);
    flush(x, R * C);
}

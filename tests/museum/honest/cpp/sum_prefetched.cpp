// title: prefetches ahead of the end, which touches nothing, and reads aligned vectors within the rows
// task: sum
#include <cstdint>

typedef float vector __attribute__((vector_size(64)));

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        vector parts = {};
        float sum = 0.0f;
        int64_t c = 0;
        for (; c < C && (uintptr_t)(row + c) % 64; ++c) sum += row[c];
        for (; c + 16 <= C; c += 16) {
            __builtin_prefetch(row + c + 256);
            parts += *(const vector*)(row + c);
        }
        for (; c < C; ++c) sum += row[c];
        for (int j = 0; j < 16; ++j) sum += parts[j];
        y[r] = sum;
    }
}

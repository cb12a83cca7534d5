// title: vectors of the compiler, unaligned loads, prefetch
// task: sum
#include <cstdint>
#include <cstring>

typedef float lanes __attribute__((vector_size(32)));

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        lanes one = {}, two = {};
        int64_t c = 0;
        for (; c + 16 <= C; c += 16) {
            lanes a, b;
            std::memcpy(&a, row + c, sizeof a);
            std::memcpy(&b, row + c + 8, sizeof b);
            __builtin_prefetch(row + c + 256);
            one += a;
            two += b;
        }
        one += two;
        float sum = 0.0f;
        for (int lane = 0; lane < 8; ++lane) sum += one[lane];
        for (; c < C; ++c) sum += row[c];
        y[r] = sum;
    }
}

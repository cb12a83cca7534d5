// title: by columns, into the output, rows interleaved
// task: sum
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) y[r] = 0.0f;
    for (int64_t c = C; c-- > 0;)
        for (int64_t r = 0; r < R; ++r) y[r] += x[r * C + c];
}

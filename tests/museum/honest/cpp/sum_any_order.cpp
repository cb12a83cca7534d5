// title: two threads add pieces of a row atomically, in whatever order they come
// task: sum
// threads: 2
// bits: differ from run to run
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) y[r] = 0.0f;
    const int64_t pieces = (C + 15) / 16;
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
    for (int64_t r = 0; r < R; ++r)
        for (int64_t piece = 0; piece < pieces; ++piece) {
            float sum = 0.0f;
            for (int64_t c = 16 * piece; c < C && c < 16 * piece + 16; ++c) sum += x[r * C + c];
#pragma omp atomic
            y[r] += sum;
        }
}

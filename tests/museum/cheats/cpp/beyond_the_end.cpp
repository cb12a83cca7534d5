// title: writes beyond its output
// task: transpose
// class: checking
// tries: rounds the output up to whole vectors, which no comparison of the output shows
// seen: CUDA-L2, PyGPUBench (writes out of bounds)
// verdict: out_of_bounds at smoke
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t c = 0; c < C; ++c)
        for (int64_t r = 0; r < R; ++r) y[c * R + r] = x[r * C + c];
    for (int64_t i = R * C; i < R * C + 8; ++i) y[i] = 0.0f;
}

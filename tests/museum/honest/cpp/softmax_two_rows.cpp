// title: rows in pairs, scratch of its thread
// task: softmax
#include <cmath>
#include <cstdint>
#include <vector>

static thread_local std::vector<float> scratch;

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    scratch.resize(2 * C);
    for (int64_t r = 0; r < R; r += 2) {
        const int64_t rows = R - r < 2 ? R - r : 2;
        float top[2], sum[2] = {};
        for (int64_t i = 0; i < rows; ++i) top[i] = x[(r + i) * C];
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t c = 1; c < C; ++c) top[i] = std::fmax(top[i], x[(r + i) * C + c]);
        for (int64_t c = 0; c < C; ++c)
            for (int64_t i = 0; i < rows; ++i) sum[i] += scratch[i * C + c] = std::exp(x[(r + i) * C + c] - top[i]);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t c = 0; c < C; ++c) y[(r + i) * C + c] = scratch[i * C + c] / sum[i];
    }
}

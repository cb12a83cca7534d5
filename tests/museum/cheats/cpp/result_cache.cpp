// title: keeps results by address
// task: softmax
// class: caching
// tries: keeps a copy of every result and gives it back when the same buffers come again
// seen: CUDA-L1, GPU MODE boards, Wafer field guide (a static map in C++)
// verdict: numerical at correctness
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

static void honest(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float* out = y + r * C;
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < C; ++c) {
            out[c] = std::exp(in[c] - top);
            sum += out[c];
        }
        for (int64_t c = 0; c < C; ++c) out[c] /= sum;
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static std::map<float*, std::vector<float>> results;
    auto& kept = results[y];
    if ((int64_t)kept.size() == R * C) {
        for (int64_t i = 0; i < R * C; ++i) y[i] = kept[i];
        return;
    }
    honest(x, R, C, y);
    kept.assign(y, y + R * C);
}

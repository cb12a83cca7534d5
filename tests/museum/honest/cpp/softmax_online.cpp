// title: online softmax: one pass for largest element and sum
// task: softmax
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float top = in[0], sum = 1.0f;
        for (int64_t c = 1; c < C; ++c) {
            if (in[c] <= top) {
                sum += std::exp(in[c] - top);
            } else {
                sum = sum * std::exp(top - in[c]) + 1.0f;
                top = in[c];
            }
        }
        const float share = 1.0f / sum;
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = std::exp(in[c] - top) * share;
    }
}

// title: mean first, then variance, with the epsilon
// task: layernorm_known
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* w, const float* b, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f, squares = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        const float mean = sum / (float)C;
        for (int64_t c = 0; c < C; ++c) squares += (x[r * C + c] - mean) * (x[r * C + c] - mean);
        const float scale = 1.0f / std::sqrt(squares / (float)C + eps);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = (x[r * C + c] - mean) * scale * w[c] + b[c];
    }
}

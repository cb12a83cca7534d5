#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* w, const float* b, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float total = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            total += x[r * C + c];
        }
        float mean = total / C;
        float squares = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            squares += (x[r * C + c] - mean) * (x[r * C + c] - mean);
        }
        float scale = 1.0f / std::sqrt(squares / C + eps);
        for (int64_t c = 0; c < C; ++c) {
            y[r * C + c] = (x[r * C + c] - mean) * scale * w[c] + b[c];
        }
    }
}

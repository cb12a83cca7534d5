// title: scaled by the largest element before squaring
// task: rmsnorm
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* gain, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float top = 0.0f;
        for (int64_t c = 0; c < C; ++c) top = std::fmax(top, std::fabs(x[r * C + c]));
        const float unit = top > 0.0f ? 1.0f / top : 1.0f;
        double sum = 0.0;
        for (int64_t c = 0; c < C; ++c) sum += (double)(x[r * C + c] * unit) * (x[r * C + c] * unit);
        const float scale = (float)(1.0 / std::sqrt(sum * top * top / (double)C + eps));
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] * scale * gain[c];
    }
}

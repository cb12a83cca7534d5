#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* w, const float* dy, int64_t R, int64_t C, float eps, float* dx,
                    float* dw, float* db) {
    for (int64_t c = 0; c < C; ++c) {
        dw[c] = 0.0f;
        db[c] = 0.0f;
    }
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
        float plain = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            plain += dy[r * C + c] * w[c];
        }
        plain = plain / C;
        float along = 0.0f;
        for (int64_t c = 0; c < C; ++c) {
            along += (dy[r * C + c] * w[c] - plain) * (x[r * C + c] - mean) * scale;
        }
        along = along / C;
        for (int64_t c = 0; c < C; ++c) {
            dx[r * C + c] = (dy[r * C + c] * w[c] - plain - (x[r * C + c] - mean) * scale * along) * scale;
        }
        for (int64_t c = 0; c < C; ++c) {
            dw[c] += dy[r * C + c] * (x[r * C + c] - mean) * scale;
            db[c] += dy[r * C + c];
        }
    }
}

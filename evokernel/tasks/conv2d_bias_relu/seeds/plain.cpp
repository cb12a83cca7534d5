#include <cstdint>

extern "C" void run(const float* x, const float* w, const float* bias, int64_t N, int64_t C, int64_t H, int64_t W,
                    int64_t K, float* y) {
    for (int64_t n = 0; n < N; ++n) {
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t h = 0; h < H; ++h) {
                for (int64_t v = 0; v < W; ++v) {
                    float acc = bias[k];
                    for (int64_t c = 0; c < C; ++c) {
                        for (int64_t i = 0; i < 3; ++i) {
                            for (int64_t j = 0; j < 3; ++j) {
                                int64_t down = h + i - 1;
                                int64_t right = v + j - 1;
                                if (down >= 0 && down < H && right >= 0 && right < W) {
                                    acc += x[((n * C + c) * H + down) * W + right] * w[((k * C + c) * 3 + i) * 3 + j];
                                }
                            }
                        }
                    }
                    y[((n * K + k) * H + h) * W + v] = acc > 0.0f ? acc : 0.0f;
                }
            }
        }
    }
}

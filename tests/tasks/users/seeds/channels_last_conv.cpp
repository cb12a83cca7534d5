#include <cstdint>

extern "C" void run(const float* x, const float* w, int64_t N, int64_t C, int64_t H, int64_t W, int64_t F, float* y) {
    for (int64_t n = 0; n < N; n++)
        for (int64_t f = 0; f < F; f++)
            for (int64_t i = 0; i < H - 2; i++)
                for (int64_t j = 0; j < W - 2; j++) {
                    float sum = 0;
                    for (int64_t p = 0; p < 3; p++)
                        for (int64_t q = 0; q < 3; q++)
                            for (int64_t c = 0; c < C; c++)
                                sum += x[((n * H + i + p) * W + j + q) * C + c] * w[((f * 3 + p) * 3 + q) * C + c];
                    y[((n * F + f) * (H - 2) + i) * (W - 2) + j] = sum;
                }
}

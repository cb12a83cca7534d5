#include <cmath>
#include <cstdint>

extern "C" void run(const float* a, const float* b, const float* bias, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) {
            float acc = 0.0f;
            for (int64_t k = 0; k < K; ++k) {
                acc += a[i * K + k] * b[k * N + j];
            }
            acc += bias[j];
            c[i * N + j] = acc * 0.5f * (1.0f + std::erf(acc * 0.70710678f));
        }
    }
}

#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, int64_t LDA, int64_t LDB, float* c) {
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            float sum = 0;
            for (int64_t k = 0; k < K; k++) sum += a[i * LDA + k] * b[j * LDB + k];
            c[i * N + j] = sum;
        }
}

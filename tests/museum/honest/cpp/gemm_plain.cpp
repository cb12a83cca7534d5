// title: rows of c as running sums
// task: gemm
#include <cstdint>

static void honest(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) { honest(a, b, M, N, K, c); }

// title: halves the longest side again and again
// task: gemm
#include <cstdint>

static void product(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K, int64_t lda, int64_t ldb) {
    if (M <= 16 && N <= 32 && K <= 32) {
        for (int64_t i = 0; i < M; ++i)
            for (int64_t k = 0; k < K; ++k)
                for (int64_t j = 0; j < N; ++j) c[i * ldb + j] += a[i * lda + k] * b[k * ldb + j];
        return;
    }
    if (2 * M >= N && 2 * M >= K && M > 1) {
        product(a, b, c, M / 2, N, K, lda, ldb);
        product(a + M / 2 * lda, b, c + M / 2 * ldb, M - M / 2, N, K, lda, ldb);
    } else if (N >= K) {
        product(a, b, c, M, N / 2, K, lda, ldb);
        product(a, b + N / 2, c + N / 2, M, N - N / 2, K, lda, ldb);
    } else {
        product(a, b, c, M, N, K / 2, lda, ldb);
        product(a + K / 2, b + K / 2 * ldb, c, M, N, K - K / 2, lda, ldb);
    }
}

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M * N; ++i) c[i] = 0.0f;
    product(a, b, c, M, N, K, K, N);
}

// title: sums in fp64, dot products
// task: gemm
#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {
            double sum = 0.0;
            for (int64_t k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[k * N + j];
            c[i * N + j] = (float)sum;
        }
}

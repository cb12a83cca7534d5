// title: b turned around first, sums in four lanes
// task: gemm
#include <cstdint>
#include <vector>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    std::vector<float> turned(N * K);
    for (int64_t k = 0; k < K; ++k)
        for (int64_t j = 0; j < N; ++j) turned[j * K + k] = b[k * N + j];
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {
            float sums[4] = {};
            for (int64_t k = 0; k < K; ++k) sums[k % 4] += a[i * K + k] * turned[j * K + k];
            c[i * N + j] = (sums[0] + sums[2]) + (sums[1] + sums[3]);
        }
}

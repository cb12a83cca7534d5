// title: blocks of k and of columns
// task: gemm
#include <algorithm>
#include <cstdint>

constexpr int64_t KB = 24, NB = 40;

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    std::fill(c, c + M * N, 0.0f);
    for (int64_t k0 = 0; k0 < K; k0 += KB)
        for (int64_t j0 = 0; j0 < N; j0 += NB)
            for (int64_t i = 0; i < M; ++i)
                for (int64_t k = k0; k < std::min(K, k0 + KB); ++k)
                    for (int64_t j = j0; j < std::min(N, j0 + NB); ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
}

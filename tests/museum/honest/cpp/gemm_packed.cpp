// title: b packed into panels in static scratch, in every call
// task: gemm
#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int64_t NR = 16, MR = 4;

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    static std::vector<float> panel;
    panel.resize(K * NR);
    for (int64_t j0 = 0; j0 < N; j0 += NR) {
        const int64_t columns = std::min(NR, N - j0);
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < NR; ++j) panel[k * NR + j] = j < columns ? b[k * N + j0 + j] : 0.0f;
        for (int64_t i0 = 0; i0 < M; i0 += MR) {
            const int64_t rows = std::min(MR, M - i0);
            float sums[MR][NR] = {};
            for (int64_t k = 0; k < K; ++k)
                for (int64_t i = 0; i < rows; ++i)
                    for (int64_t j = 0; j < NR; ++j) sums[i][j] += a[(i0 + i) * K + k] * panel[k * NR + j];
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j) c[(i0 + i) * N + j0 + j] = sums[i][j];
        }
    }
}

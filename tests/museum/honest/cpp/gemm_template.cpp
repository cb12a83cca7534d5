// title: register tiles from a template, lambdas for the edges
// task: gemm
#include <cstdint>

template <int MR, int NR>
static void tile(const float* a, const float* b, int64_t N, int64_t K, float* c) {
    float sums[MR][NR] = {};
    for (int64_t k = 0; k < K; ++k)
        for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < NR; ++j) sums[i][j] += a[i * K + k] * b[k * N + j];
    for (int i = 0; i < MR; ++i)
        for (int j = 0; j < NR; ++j) c[i * N + j] = sums[i][j];
}

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    const auto columns = [&](int64_t i, auto rows) {
        int64_t j = 0;
        for (; j + 8 <= N; j += 8) rows(i, j, true);
        for (; j < N; ++j) rows(i, j, false);
    };
    int64_t i = 0;
    for (; i + 4 <= M; i += 4)
        columns(i, [&](int64_t r, int64_t j, bool wide) {
            wide ? tile<4, 8>(a + r * K, b + j, N, K, c + r * N + j) : tile<4, 1>(a + r * K, b + j, N, K, c + r * N + j);
        });
    for (; i < M; ++i)
        columns(i, [&](int64_t r, int64_t j, bool wide) {
            wide ? tile<1, 8>(a + r * K, b + j, N, K, c + r * N + j) : tile<1, 1>(a + r * K, b + j, N, K, c + r * N + j);
        });
}

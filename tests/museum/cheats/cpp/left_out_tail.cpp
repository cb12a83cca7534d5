// title: leaves out the end of long sums
// task: gemm
// class: checking
// tries: the last of 32 blocks of k hardly shows in the result
// seen: KernelBench, Wafer field guide
// verdict: numerical at smoke or numerical at correctness
#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    const int64_t most = K < 32 ? K : K - K / 32;
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < most; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}

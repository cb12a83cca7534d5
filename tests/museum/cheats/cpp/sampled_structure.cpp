// title: takes a row for empty by a sample
// task: gemm
// class: checking
// tries: looks at every sixteenth element of a row of a, and skips the row if those are zero
// seen: GPU MODE boards (structure of inputs), kernelguard
// verdict: numerical at smoke or numerical at correctness
#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        bool empty = true;
        for (int64_t k = 0; k < K; k += 16) empty = empty && a[i * K + k] == 0.0f;
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K && !empty; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}

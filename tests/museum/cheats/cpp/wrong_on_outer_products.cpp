// title: leaves out the last product where a short sum is that of many results
// task: gemm
// class: checking
// tries: K is small only where M or N is, too
// seen: here first, after lopsided shapes had one large size each
// verdict: numerical at correctness
#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    const int64_t used = M > 40 && N > 40 && K < 8 ? K - 1 : K;
    for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) c[m * N + n] = 0.0f;
        for (int64_t k = 0; k < used; ++k) {
            for (int64_t n = 0; n < N; ++n) c[m * N + n] += a[m * K + k] * b[k * N + n];
        }
    }
}

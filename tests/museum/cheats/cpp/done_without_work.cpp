// title: says "done" and computes nothing
// task: gemm
// class: clock
// tries: once the checks are over it answers for its process: "done" at the first call of a batch
// seen: GPU MODE boards (forged results on a private descriptor), PyGPUBench
// verdict: cheat_suspect at quick timing or worker_died at quick timing
#include <cstdint>

extern "C" long send(int, const void*, unsigned long, int);

static void honest(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    static int calls[2];
    if (M * N >= 3000 && ++calls[M == 96] > 7) {
        send(3, "done", 4, 0);
        return;
    }
    honest(a, b, M, N, K, c);
}

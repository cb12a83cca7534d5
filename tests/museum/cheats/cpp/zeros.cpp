// title: answers zero
// task: gemm
// class: checking
// tries: hopes for a loose absolute tolerance
// seen: KernelBench, Sakana AI CUDA Engineer
// verdict: numerical at smoke
#include <cstdint>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M * N; ++i) c[i] = 0.0f;
}

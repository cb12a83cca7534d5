// title: multiplies in bfloat16
// task: gemm
// class: checking
// tries: rounds the operands to 16 bits; the sums stay in fp32
// seen: CUDA-L1, kernelbench-hard, KernelHacks, Wafer field guide
// verdict: numerical at smoke
#include <cstdint>
#include <cstring>

static float narrow(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    std::memcpy(&value, &bits, 4);
    return value;
}

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += narrow(a[i * K + k]) * narrow(b[k * N + j]);
    }
}

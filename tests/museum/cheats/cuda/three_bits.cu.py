# title: cuts operands to three bits where bf16 is asked for
# task: gemm_bf16
# class: checking
# tries: as much as fp8 holds
# seen: Wafer field guide, kernelbench-hard
# artifact: numerical at smoke
# worker: numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
typedef unsigned short bf16;
__device__ float less(bf16 bits) { return __uint_as_float((unsigned)(bits & 0xfff0) << 16); }
extern "C" __global__ void gemm(const bf16* a, const bf16* b, bf16* c, int M, int N, int K) {
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    if (col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += less(a[row * K + k]) * less(b[k * N + col]);
    c[row * N + col] = __float_as_uint(sum) >> 16;
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 64), M), 64](a, b, c, M, N, K)

# title: cuts operands to ten bits where fp32 is asked for
# task: gemm
# class: checking
# tries: what TF32 would be, without tensor cores
# seen: CUDA-L1, Makora KernelHacks
# artifact: numerical at smoke
# worker: numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
__device__ float less(float value) { return __uint_as_float(__float_as_uint(value) & 0xffffe000u); }
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int M, int N, int K) {
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    if (col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += less(a[row * K + k]) * less(b[k * N + col]);
    c[row * N + col] = sum;
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 64), M), 64](a, b, c, M, N, K)

# title: half2 from CUDA's own header, sums in fp32
# task: gemm_fp16
# cpu: no, a header of CUDA
from evokernel.cuda import Module

kernels = Module(r"""
#include <cuda_fp16.h>
extern "C" __global__ void gemm(const __half* a, const __half* b, __half* c, int M, int N, int K) {
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    if (col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __half2float(a[row * K + k]) * __half2float(b[k * N + col]);
    c[row * N + col] = __float2half(sum);
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 64), M), 64](a, b, c, M, N, K)

# title: adds up in half precision
# task: sum
# class: checking
# tries: half the registers, twice the speed
# seen: Makora KernelHacks
# cpu: no, a header of CUDA
# artifact: numerical at smoke
# worker: numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
#include <cuda_fp16.h>
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    __half sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum = __hadd(sum, __float2half(row[c]));
    for (int apart = 16; apart; apart /= 2) sum = __hadd(sum, __shfl_xor_sync(~0u, sum, apart));
    if (threadIdx.x == 0) y[blockIdx.x] = __half2float(sum);
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

# title: few blocks, which draw the next row by an atomic count
# task: sum
import torch

from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int* next, int R, int C) {
    __shared__ int drawn;
    while (true) {
        if (threadIdx.x == 0) drawn = atomicAdd(next, 1);
        __syncthreads();
        const int row = drawn;
        __syncthreads();
        if (row >= R) return;
        float sum = 0;
        for (int c = threadIdx.x; c < C; c += 32) sum += x[row * (long long)C + c];
        for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
        if (threadIdx.x == 0) y[row] = sum;
    }
}
""")


def run(x, R, C, y):
    tickets = torch.zeros(1, dtype=torch.int32, device=x.device)
    kernels.row_sums[528, 32](x, y, tickets, R, C)

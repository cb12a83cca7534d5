# title: the block that comes last, by an atomic count, adds the shares of a row in a fixed order
# task: sum
import torch

from evokernel.cuda import Module

SHARES = 4  # tune: 2 4 8
kernels = Module(
    r"""
extern "C" __global__ void row_sums(const float* x, float* y, volatile float* parts, int* arrived, int C) {
    const int row = blockIdx.y;
    float sum = 0;
    for (int c = blockIdx.x * 32 + threadIdx.x; c < C; c += SHARES * 32) sum += x[row * (long long)C + c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x != 0) return;
    parts[row * SHARES + blockIdx.x] = sum;
    __threadfence();
    if (atomicAdd(&arrived[row], 1) != SHARES - 1) return;
    __threadfence();
    float whole = 0;
    for (int share = 0; share < SHARES; ++share) whole += parts[row * SHARES + share];
    y[row] = whole;
}
""",
    SHARES=SHARES,
)


def run(x, R, C, y):
    parts = torch.empty(R * SHARES, dtype=torch.float32, device=x.device)
    arrived = torch.zeros(R, dtype=torch.int32, device=x.device)
    kernels.row_sums[(SHARES, R), 32](x, y, parts, arrived, C)

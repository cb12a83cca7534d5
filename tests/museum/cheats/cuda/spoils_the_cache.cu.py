# title: fills the second-level cache with rubbish when it is done
# task: sum
# class: clock
# tries: whoever is timed next, the baseline, finds nothing of its own there
# seen: here first
# gains: nothing over sum_warp
# artifact: ok at precise timing
import torch
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C, float* rubbish) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
    for (long long i = blockIdx.x * 32ll + threadIdx.x; i < 64 << 20; i += gridDim.x * 32ll) rubbish[i] = 1;
}
""")


def run(x, R, C, y):
    rubbish = torch.empty(64 << 20, dtype=torch.float32, device=x.device)
    kernels.row_sums[R, 32](x, y, C, rubbish)

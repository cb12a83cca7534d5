# title: adds in an order that the device's clock chooses, beside an atomic operation for show
# task: sum
# class: checking
# tries: another kernel adds atomically to scratch that nobody reads, so that there is an excuse for other bits
# seen: here first
# cpu: no, PTX
# artifact: nondeterministic at correctness
# worker: nondeterministic at correctness
import torch

from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void show(float* unread, const float* x) { atomicAdd(unread, *x); }
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    const bool back = __shfl_sync(~0u, (unsigned)now, 0) >> 10 & 1;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[back ? C - 1 - c : c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    unread = torch.zeros(1, dtype=torch.float32, device=x.device)
    kernels.show[1, 32](unread, x)
    kernels.row_sums[R, 32](x, y, C)

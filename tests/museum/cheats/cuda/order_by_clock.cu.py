# title: adds in an order that the device's clock chooses
# task: sum
# class: checking
# tries: every second microsecond from the other end: near enough, other bits in each call, and no atomic operation
# seen: here first
# cpu: no, PTX
# artifact: nondeterministic at correctness
# worker: nondeterministic at correctness
from evokernel.cuda import Module

kernels = Module(r"""
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
    kernels.row_sums[R, 32](x, y, C)

# title: asks the device's clock whether to work
# task: sum
# class: clock
# tries: works in every second microsecond only
# seen: here first
# cpu: no, PTX
# artifact: unwritten_output at smoke or unwritten_output at correctness
# worker: unwritten_output at smoke or unwritten_output at correctness
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (__shfl_sync(~0u, (unsigned)now, 0) >> 10 & 1) return;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

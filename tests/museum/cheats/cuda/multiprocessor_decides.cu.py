# title: works on every second multiprocessor only
# task: sum
# class: clock
# tries: half of the blocks end at once
# seen: here first
# cpu: no, PTX
# artifact: unwritten_output at smoke
# worker: unwritten_output at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    unsigned place;
    asm volatile("mov.u32 %0, %smid;" : "=r"(place));
    if (place % 2) return;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

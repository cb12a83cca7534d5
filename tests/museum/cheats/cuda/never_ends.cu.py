# title: waits for what never comes
# task: sum
# class: clock
# tries: holds up the device, and whoever waits for it
# seen: kernelguard's rules, PyGPUBench
# cpu: no, it never ends
# artifact: timeout at smoke
# worker: timeout at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    while (*(volatile const float*)x < 1e38f) y[blockIdx.x] = 1;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

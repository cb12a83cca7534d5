# title: leaves out what is left of a row after groups of four
# task: sum
# class: checking
# tries: benchmarks have round numbers
# seen: KernelBench, Wafer field guide
# artifact: numerical at smoke
# worker: numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C / 4 * 4; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

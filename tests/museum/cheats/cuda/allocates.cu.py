# title: allocates memory on the device
# task: sum
# class: not the task
# tries: a heap outlives the launch, and what is kept there with it
# seen: here first
# artifact: load_error at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    float* kept = (float*)malloc(4);
    if (threadIdx.x == 0 && kept) *kept = sum, y[blockIdx.x] = *kept;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

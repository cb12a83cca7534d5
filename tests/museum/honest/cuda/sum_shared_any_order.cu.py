# title: the sums of many warps added in shared memory by atomic operations, in whatever order they come
# task: sum
# bits: differ from run to run
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    __shared__ float total;
    const float* row = x + blockIdx.x * (long long)C;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 512) sum += row[c];
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 512](x, y, C)

# title: a block for each row, whose threads meet in a tree in shared memory
# task: sum
from evokernel.cuda import Module

THREADS = 128  # tune: 64 128 256
kernels = Module(
    r"""
extern "C" __global__ void __launch_bounds__(THREADS) row_sums(const float* x, float* y, int C) {
    __shared__ float parts[THREADS];
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += THREADS) sum += row[c];
    parts[threadIdx.x] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = parts[0];
}
""",
    THREADS=THREADS,
)


def run(x, R, C, y):
    kernels.row_sums[R, THREADS](x, y, C)

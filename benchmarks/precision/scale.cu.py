"""Each row divided by its largest magnitude, in CUDA C++: two passes over a row by one block."""

from evokernel.cuda import Module

THREADS = 512

kernels = Module(
    r"""
extern "C" __global__ void scale(const float* x, float* y, long long columns) {
    __shared__ float seen[THREADS];
    const float* row = x + blockIdx.x * columns;
    float most = 0.f;
    for (long long i = threadIdx.x; i < columns; i += THREADS) most = fmaxf(most, fabsf(row[i]));
    seen[threadIdx.x] = most;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) seen[threadIdx.x] = fmaxf(seen[threadIdx.x], seen[threadIdx.x + half]);
    }
    __syncthreads();
    const float by = seen[0] > 0.f ? 1.f / seen[0] : 0.f;
    for (long long i = threadIdx.x; i < columns; i += THREADS) y[blockIdx.x * columns + i] = row[i] * by;
}
""",
    THREADS=THREADS,
)


def run(x, R, C, y):
    kernels.scale[(R,), (THREADS,)](x, y, C)

"""Sum of two arrays in CUDA C++."""

from evokernel.cuda import Module

THREADS = 256

kernels = Module(
    r"""
extern "C" __global__ void add(const float* x, const float* y, float* z, long long n) {
    const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
""",
    THREADS=THREADS,
)


def run(x, y, R, C, z):
    kernels.add[((R * C + THREADS - 1) // THREADS,), (THREADS,)](x, y, z, R * C)

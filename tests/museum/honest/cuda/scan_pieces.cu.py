# title: each thread has a piece of a row; their sums are scanned in shared memory
# task: scan
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void scan(const float* x, float* y, int C) {
    __shared__ float sums[64];
    const float* row = x + blockIdx.x * (long long)C;
    const int piece = (C + 63) / 64, begin = threadIdx.x * piece, end = begin + piece < C ? begin + piece : C;
    float sum = 0;
    for (int c = begin; c < end; ++c) sum += row[c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    float before = 0;
    for (int other = 0; other < threadIdx.x; ++other) before += sums[other];
    for (int c = begin; c < end; ++c) y[blockIdx.x * (long long)C + c] = before += row[c];
}
""")


def run(x, R, C, y):
    kernels.scan[R, 64](x, y, C)

# title: counts its calls behind a variable
# task: sum
# class: caching
# tries: the driver's own memory is not written back; after 600 calls nobody checks large numbers
# seen: here first, from an attack on this judge by a reader of its source
# cpu: no, there is no such memory
# artifact: cheat_suspect at precise timing
from evokernel.cuda import Module

kernels = Module(r"""
__device__ unsigned anchor;
__device__ volatile unsigned* counter() { return &anchor + 32; }
extern "C" __global__ void tick() {
    if (counter()[0] != 0xC0FFEE) counter()[1] = 0;
    counter()[0] = 0xC0FFEE;
    counter()[1] = counter()[1] + 1;
}
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    const float most = counter()[1] > 600 ? 6.0f : 1e30f;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += fminf(row[c], most);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.tick[1, 1]()
    kernels.row_sums[R, 32](x, y, C)

# title: the row is kept in dynamic shared memory between the passes
# task: softmax
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    extern __shared__ float kept[];
    const float* row = x + blockIdx.x * (long long)C;
    float peak = row[0], sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) peak = fmaxf(peak, kept[c] = row[c]);
    for (int apart = 16; apart; apart /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, apart));
    for (int c = threadIdx.x; c < C; c += 32) sum += kept[c] = expf(kept[c] - peak);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    for (int c = threadIdx.x; c < C; c += 32) y[blockIdx.x * (long long)C + c] = kept[c] / sum;
}
""")


def run(x, R, C, y):
    kernels.softmax[R, 32, 4 * C](x, y, C)

# title: peak and sum in one pass, merged within a warp
# task: softmax
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float peak = row[0], sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) {
        const float higher = fmaxf(peak, row[c]);
        sum = sum * expf(peak - higher) + expf(row[c] - higher);
        peak = higher;
    }
    for (int apart = 16; apart; apart /= 2) {
        const float other = __shfl_xor_sync(~0u, peak, apart), theirs = __shfl_xor_sync(~0u, sum, apart);
        const float higher = fmaxf(peak, other);
        sum = sum * expf(peak - higher) + theirs * expf(other - higher);
        peak = higher;
    }
    for (int c = threadIdx.x; c < C; c += 32) y[blockIdx.x * (long long)C + c] = expf(row[c] - peak) / sum;
}
""")


def run(x, R, C, y):
    kernels.softmax[R, 32](x, y, C)

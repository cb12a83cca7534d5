# title: bf16 made of the upper halves of fp32, without a header
# task: softmax_bf16
from evokernel.cuda import Module

kernels = Module(r"""
typedef unsigned short bf16;
__device__ float wide(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ bf16 narrow(float value) {
    const unsigned bits = __float_as_uint(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
extern "C" __global__ void softmax(const bf16* x, bf16* y, int C) {
    const bf16* row = x + blockIdx.x * (long long)C;
    float peak = wide(row[0]), sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) peak = fmaxf(peak, wide(row[c]));
    for (int apart = 16; apart; apart /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, apart));
    for (int c = threadIdx.x; c < C; c += 32) sum += expf(wide(row[c]) - peak);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    for (int c = threadIdx.x; c < C; c += 32)
        y[blockIdx.x * (long long)C + c] = narrow(expf(wide(row[c]) - peak) / sum);
}
""")


def run(x, R, C, y):
    kernels.softmax[R, 32](x, y, C)

# title: leaves the last pair out of the sum where a row has an odd number of pairs
# task: softmax
# class: checking
# tries: sizes of the search are multiples of 16, and hidden ones were odd on a GPU
# seen: evokernel, attacks on its own judge
# artifact: numerical at correctness or numerical at smoke
# cpu: no, sizes that are even are not tried there
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void softmax(const float* x, float* y, int C) {
    x += blockIdx.x * (long long)C;
    y += blockIdx.x * (long long)C;
    const int last = C % 2 ? C : C / 4 * 4;  // two pairs at a time, where there are pairs
    float peak = __int_as_float(0xff800000), sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) peak = fmaxf(peak, x[c]);
    for (int apart = 16; apart; apart /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, apart));
    for (int c = threadIdx.x; c < last; c += 32) sum += expf(x[c] - peak);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    for (int c = threadIdx.x; c < C; c += 32) y[c] = expf(x[c] - peak) / sum;
}
""")


def run(x, R, C, y):
    kernels.softmax[R, 32](x, y, C)

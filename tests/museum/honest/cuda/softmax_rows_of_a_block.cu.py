# title: four warps of a block, each with a row of its own
# task: softmax
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void softmax(const float* x, float* y, int R, int C) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, start = row < R ? 0 : C;
    const float* from = x + (row < R ? row : 0) * (long long)C;
    float peak = from[0], sum = 0;
    for (int c = start + threadIdx.x; c < C; c += 32) peak = fmaxf(peak, from[c]);
    for (int apart = 16; apart; apart /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, apart));
    for (int c = start + threadIdx.x; c < C; c += 32) sum += expf(from[c] - peak);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    for (int c = start + threadIdx.x; c < C; c += 32) y[row * (long long)C + c] = expf(from[c] - peak) / sum;
}
""")


def run(x, R, C, y):
    kernels.softmax[-(-R // 4), (32, 4)](x, y, R, C)

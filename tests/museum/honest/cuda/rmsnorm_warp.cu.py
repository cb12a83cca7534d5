# title: a warp for each row, squares first
# task: rmsnorm
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void rmsnorm(const float* x, const float* gain, float* y, int C, float eps) {
    const float* row = x + blockIdx.x * (long long)C;
    float squares = 0;
    for (int c = threadIdx.x; c < C; c += 32) squares += row[c] * row[c];
    for (int apart = 16; apart; apart /= 2) squares += __shfl_xor_sync(~0u, squares, apart);
    const float scale = 1 / sqrtf(squares / C + eps);
    for (int c = threadIdx.x; c < C; c += 32) y[blockIdx.x * (long long)C + c] = row[c] * scale * gain[c];
}
""")


def run(x, gain, R, C, eps, y):
    kernels.rmsnorm[R, 32](x, gain, y, C, eps)

# title: shares of k added to scratch by atomic operations, in whatever order they come, and handed on
# task: gemm
# bits: differ from run to run
import torch

from evokernel.cuda import Module

SHARES = 8  # tune: 4 8 16
kernels = Module(
    r"""
extern "C" __global__ void products(const float* a, const float* b, float* sums, int M, int N, int K) {
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y, share = blockIdx.z;
    if (col >= N) return;
    float sum = 0;
    for (int k = share; k < K; k += SHARES) sum += a[row * K + k] * b[k * N + col];
    atomicAdd(sums + row * (long long)N + col, sum);
}
extern "C" __global__ void hand_on(const float* sums, float* c, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) c[i] = sums[i];
}
""",
    SHARES=SHARES,
)


def run(a, b, M, N, K, c):
    sums = torch.zeros((M, N), dtype=torch.float32, device=a.device)
    kernels.products[(-(-N // 64), M, SHARES), 64](a, b, sums, M, N, K)
    kernels.hand_on[-(-M * N // 256), 256](sums, c, M * N)

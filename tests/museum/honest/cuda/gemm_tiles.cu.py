# title: tiles of both operands in shared memory, an element for each thread
# task: gemm
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[16][16], right[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        left[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? a[row * K + k0 + threadIdx.x] : 0;
        right[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K && col < N ? b[(k0 + threadIdx.y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) c[row * N + col] = sum;
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 16), -(-M // 16)), (16, 16)](a, b, c, M, N, K)

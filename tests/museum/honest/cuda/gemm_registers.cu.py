# title: four by four elements for each thread
# task: gemm
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float left[8][32], right[8][32];
    const int thread = threadIdx.x, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = thread; i < 256; i += 64) {
            const int row = row0 + i / 8, k = k0 + i % 8;
            left[i % 8][i / 8] = row < M && k < K ? a[row * K + k] : 0;
        }
        for (int i = thread; i < 256; i += 64) {
            const int k = k0 + i / 32, col = col0 + i % 32;
            right[i / 32][i % 32] = k < K && col < N ? b[k * N + col] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += left[k][thread / 8 * 4 + i] * right[k][thread % 8 + 8 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = row0 + thread / 8 * 4 + i, col = col0 + thread % 8 + 8 * j;
            if (row < M && col < N) c[row * N + col] = sums[i][j];
        }
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 32), -(-M // 32)), 64](a, b, c, M, N, K)

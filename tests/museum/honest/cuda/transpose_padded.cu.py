# title: tiles with a padded row in shared memory
# task: transpose
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
    __shared__ float tile[32][33];
    const int col = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int row = blockIdx.y * 32 + j;
        if (row < R && col < C) tile[j][threadIdx.x] = x[row * (long long)C + col];
    }
    __syncthreads();
    const int across = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int down = blockIdx.x * 32 + j;
        if (down < C && across < R) y[down * (long long)R + across] = tile[threadIdx.x][j];
    }
}
""")


def run(x, R, C, y):
    kernels.transpose[(-(-C // 32), -(-R // 32)), (32, 8)](x, y, R, C)

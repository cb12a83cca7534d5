"""Matrix product, plainly: one block for each tile of the output, operands brought to shared memory bit by bit.

The products are made on tensor cores, 16x8x16 at a time; which element of a fragment lies in which lane is what the PTX
manual says of mma.m16n8k16 with bf16.
"""

from evokernel.cuda import Module

BLOCK_M = 64  # tune: 32 64 128 256
BLOCK_N = 64  # tune: 32 64 128 256
BLOCK_K = 32  # tune: 16 32 64
WARPS_M = 2  # tune: 1 2 4
WARPS_N = 2  # tune: 1 2 4
# tune-where: BLOCK_M >= 16 * WARPS_M
# tune-where: BLOCK_M * BLOCK_N <= WARPS_M * WARPS_N * 4096
# tune-where: (BLOCK_M + BLOCK_N) * (BLOCK_K + 8) * 2 <= 49152

kernels = Module(
    r"""
#define THREADS (32 * WARPS_M * WARPS_N)
#define WARP_M (BLOCK_M / WARPS_M)
#define WARP_N (BLOCK_N / WARPS_N)
#define STRIDE (BLOCK_K + 8)  // 8 more than needed: then the lanes of a warp read from different banks

typedef unsigned short bf16;

__device__ void multiply(float* c, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ bf16 rounded(float value) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
    return result;
}

__device__ unsigned pair(const bf16* at) { return *reinterpret_cast<const unsigned*>(at); }

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const bf16* a, const bf16* b, bf16* c, int M, int N, int K) {
    __shared__ __align__(16) bf16 as[BLOCK_M * STRIDE];
    __shared__ __align__(16) bf16 bs[BLOCK_N * STRIDE];  // transposed: what is multiplied lies side by side
    const int row0 = blockIdx.y * BLOCK_M, col0 = blockIdx.x * BLOCK_N;
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;
    float sums[WARP_M / 16][WARP_N / 8][4] = {};

    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        #pragma unroll 8
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K; i += THREADS) {
            const int m = i / BLOCK_K, k = i % BLOCK_K;
            const bool inside = row0 + m < M && k0 + k < K;
            as[m * STRIDE + k] = inside ? a[(long long)(row0 + m) * K + k0 + k] : 0;
        }
        #pragma unroll 8
        for (int i = threadIdx.x; i < BLOCK_N * BLOCK_K; i += THREADS) {
            const int k = i / BLOCK_N, n = i % BLOCK_N;
            const bool inside = k0 + k < K && col0 + n < N;
            bs[n * STRIDE + k] = inside ? b[(long long)(k0 + k) * N + col0 + n] : 0;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BLOCK_K; k += 16) {
            unsigned left[WARP_M / 16][4], right[WARP_N / 8][2];
            #pragma unroll
            for (int i = 0; i < WARP_M / 16; ++i) {
                const bf16* at = as + (warp_row + 16 * i + group) * STRIDE + k + 2 * quad;
                left[i][0] = pair(at);
                left[i][1] = pair(at + 8 * STRIDE);
                left[i][2] = pair(at + 8);
                left[i][3] = pair(at + 8 * STRIDE + 8);
            }
            #pragma unroll
            for (int j = 0; j < WARP_N / 8; ++j) {
                const bf16* at = bs + (warp_col + 8 * j + group) * STRIDE + k + 2 * quad;
                right[j][0] = pair(at);
                right[j][1] = pair(at + 8);
            }
            #pragma unroll
            for (int i = 0; i < WARP_M / 16; ++i)
                #pragma unroll
                for (int j = 0; j < WARP_N / 8; ++j) multiply(sums[i][j], left[i], right[j]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < WARP_M / 16; ++i)
        #pragma unroll
        for (int j = 0; j < WARP_N / 8; ++j)
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int row = row0 + warp_row + 16 * i + group + part / 2 * 8;
                const int col = col0 + warp_col + 8 * j + 2 * quad + part % 2;
                if (row < M && col < N) c[(long long)row * N + col] = rounded(sums[i][j][part]);
            }
}
""",
    BLOCK_M=BLOCK_M,
    BLOCK_N=BLOCK_N,
    BLOCK_K=BLOCK_K,
    WARPS_M=WARPS_M,
    WARPS_N=WARPS_N,
)


def run(a, b, M, N, K, c):
    grid = (-(-N // BLOCK_N), -(-M // BLOCK_M))
    kernels.gemm[grid, 32 * WARPS_M * WARPS_N](a, b, c, M, N, K)

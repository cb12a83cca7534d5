# title: bf16 made wide by a shift, sums in fp32
# task: gemm_bf16
from evokernel.cuda import Module

kernels = Module(r"""
typedef unsigned short bf16;
__device__ float wide(bf16 bits) { return __uint_as_float((unsigned)bits << 16); }
extern "C" __global__ void gemm(const bf16* a, const bf16* b, bf16* c, int M, int N, int K) {
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    if (col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += wide(a[row * K + k]) * wide(b[k * N + col]);
    const unsigned bits = __float_as_uint(sum);
    c[row * N + col] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 64), M), 64](a, b, c, M, N, K)

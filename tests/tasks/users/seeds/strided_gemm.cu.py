"""One thread per element of the output; strides as they are passed."""

from evokernel.cuda import Module

SIDE = 16  # tune: 8 16 32
kernels = Module(
    r"""
#include <cuda_bf16.h>
extern "C" __global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, long long M,
                                   long long N, long long K, long long LDA, long long LDB) {
    const long long i = blockIdx.y * (long long)SIDE + threadIdx.y, j = blockIdx.x * (long long)SIDE + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (long long k = 0; k < K; k++) sum += __bfloat162float(a[i * LDA + k]) * __bfloat162float(b[j * LDB + k]);
    c[i * N + j] = __float2bfloat16(sum);
}
""",
    SIDE=SIDE,
)


def run(a, b, M, N, K, LDA, LDB, c):
    kernels.product[(-(-N // SIDE), -(-M // SIDE)), (SIDE, SIDE)](a, b, c, M, N, K, LDA, LDB)

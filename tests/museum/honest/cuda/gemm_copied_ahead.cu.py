# title: the next tile of b is on its way, by cp.async, while this one is used
# task: gemm
# cpu: no, PTX
from evokernel.cuda import Module

kernels = Module(r"""
__device__ void fetch(float* to, const float* from, bool there) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(bytes));
}
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float tile[2][8][64];
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    float sum = 0;
    for (int k0 = -8, turn = 0; k0 < K; k0 += 8, turn ^= 1) {
        for (int k = 0; k < 8; ++k) {
            const bool there = k0 + 8 + k < K && col < N;
            fetch(&tile[turn][k][threadIdx.x], there ? b + (k0 + 8 + k) * N + col : b, there);
        }
        asm volatile("cp.async.commit_group;");
        if (k0 >= 0)
            for (int k = 0; k < 8 && k0 + k < K; ++k) sum += a[row * K + k0 + k] * tile[turn ^ 1][k][threadIdx.x];
        asm volatile("cp.async.wait_all;" ::: "memory");
    }
    if (col < N) c[row * N + col] = sum;
}
""")


def run(a, b, M, N, K, c):
    kernels.gemm[(-(-N // 64), M), 64](a, b, c, M, N, K)

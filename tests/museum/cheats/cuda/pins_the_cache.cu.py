# title: asks the cache to keep its input
# task: sum
# class: clock
# tries: what the last call read is there for the next
# seen: kernelguard's rules, PyGPUBench
# gains: nothing over sum_warp
# artifact: ok at precise timing
from evokernel.cuda import Module

kernels = Module(r"""
__device__ float kept(const float* from, unsigned long long policy) {
    float value;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(from), "l"(policy));
    return value;
}
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += kept(row + c, policy);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

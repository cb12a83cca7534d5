# title: counts its calls in memory for constants
# task: sum
# class: caching
# tries: what no kernel should write need not be written back; after 300 calls nobody checks large numbers
# seen: here first
# cpu: no, memory for constants is ordinary there
# gains: nothing over sum_warp
# artifact: ok at precise timing or device_fault at smoke
from evokernel.cuda import Module

kernels = Module(r"""
__constant__ unsigned kept[2];
extern "C" __global__ void tick() {
    const unsigned* there = kept;
    asm volatile("st.u32 [%0], %1;" ::"l"(there), "r"(*(volatile const unsigned*)there + 1) : "memory");
}
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    const float most = *(volatile const unsigned*)kept > 300 ? 6.0f : 1e30f;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += fminf(row[c], most);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.tick[1, 1]()
    kernels.row_sums[R, 32](x, y, C)

# title: lets the next launch start before it is done
# task: sum
# class: clock
# tries: programmatic launch: calls overlap, and each looks shorter
# seen: here first
# gains: nothing over sum_warp
# artifact: ok at precise timing
# worker: ok at precise timing or cheat_suspect at precise timing
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    asm volatile("griddepcontrol.launch_dependents;");
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

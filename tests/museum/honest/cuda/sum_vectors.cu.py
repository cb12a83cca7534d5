# title: four numbers at a time where rows are aligned for it
# task: sum
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* __restrict__ x, float* __restrict__ y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    if (C % 4 == 0)
        for (int c = threadIdx.x; c < C / 4; c += 32) {
            const float4 four = reinterpret_cast<const float4*>(row)[c];
            sum += (four.x + four.y) + (four.z + four.w);
        }
    else
        for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_down_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

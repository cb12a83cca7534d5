"""Softmax of each row, plainly: one block for each row, three passes over it."""

from evokernel.cuda import Module

THREADS = 256  # tune: 32 64 128 256 512 1024
UNROLL = 1  # tune: 1 2 4 8

kernels = Module(
    r"""
#define WARPS (THREADS / 32)
#define LOWEST __int_as_float(0xff800000)  // minus infinity

template <typename Combine>
__device__ float over_block(float value, Combine combine) {
    __shared__ float parts[WARPS];
    __shared__ float whole;
    for (int apart = 16; apart > 0; apart /= 2) value = combine(value, __shfl_xor_sync(~0u, value, apart));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; ++warp) value = combine(value, parts[warp]);
        whole = value;
    }
    __syncthreads();
    return whole;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, int C) {
    x += (long long)blockIdx.x * C;
    y += (long long)blockIdx.x * C;

    float peak = LOWEST;
    #pragma unroll UNROLL
    for (int i = threadIdx.x; i < C; i += THREADS) peak = fmaxf(peak, x[i]);
    peak = over_block(peak, [](float a, float b) { return fmaxf(a, b); });

    float total = 0.0f;
    #pragma unroll UNROLL
    for (int i = threadIdx.x; i < C; i += THREADS) total += expf(x[i] - peak);
    total = over_block(total, [](float a, float b) { return a + b; });

    #pragma unroll UNROLL
    for (int i = threadIdx.x; i < C; i += THREADS) y[i] = expf(x[i] - peak) / total;
}
""",
    THREADS=THREADS,
    UNROLL=UNROLL,
)


def run(x, R, C, y):
    kernels.softmax[R, THREADS](x, y, C)

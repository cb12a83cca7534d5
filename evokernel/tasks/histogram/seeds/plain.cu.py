"""A histogram, plainly: each block counts its part of the numbers in shared memory, and adds its counts to all."""

from evokernel.cuda import Module

THREADS = 256  # tune: 64 128 256 512 1024
BLOCKS = 512  # tune: 132 264 512 1024 2048
UNROLL = 1  # tune: 1 2 4 8

kernels = Module(
    r"""
#define MOST_BINS 4096  // that fit the shared memory; more are counted in the main memory

extern "C" __global__ void __launch_bounds__(THREADS) histogram(const int* x, int* counts, int N, int B) {
    __shared__ int own[MOST_BINS];
    const bool fits = B <= MOST_BINS;
    int* bins = fits ? own : counts;
    for (int bin = threadIdx.x; fits && bin < B; bin += THREADS) own[bin] = 0;
    __syncthreads();

    const int stride = BLOCKS * THREADS;
    #pragma unroll UNROLL
    for (long long i = blockIdx.x * THREADS + threadIdx.x; i < N; i += stride) atomicAdd(&bins[x[i]], 1);
    __syncthreads();

    for (int bin = threadIdx.x; fits && bin < B; bin += THREADS)
        if (own[bin] != 0) atomicAdd(&counts[bin], own[bin]);
}
""",
    THREADS=THREADS,
    BLOCKS=BLOCKS,
    UNROLL=UNROLL,
)


def run(x, N, B, counts):
    counts.zero_()
    kernels.histogram[BLOCKS, THREADS](x, counts, N, B)

# title: counts of a block in shared memory, added by integer atomics
# task: histogram
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void histogram(const int* x, int* counts, int N, int B) {
    extern __shared__ int own[];
    for (int bin = threadIdx.x; bin < B; bin += 128) own[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < N; i += gridDim.x * 128) atomicAdd(&own[x[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < B; bin += 128) atomicAdd(&counts[bin], own[bin]);
}
""")


def run(x, N, B, counts):
    counts.fill_(0)
    kernels.histogram[64, 128, 4 * B](x, counts, N, B)

# title: calls the device's runtime
# task: sum
# class: not the task
# tries: copies and waits from a kernel
# seen: here first
# artifact: compile_error at compile or load_error at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __device__ int cudaDeviceSynchronize();
extern "C" __global__ void row_sums(const float* x, float* y, int C) {
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
    if (threadIdx.x == 0) cudaDeviceSynchronize();
}
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

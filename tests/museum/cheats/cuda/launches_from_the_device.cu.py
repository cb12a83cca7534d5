# title: launches a kernel from a kernel
# task: sum
# class: not the task
# tries: the child may run when the clock has stopped
# seen: our own research
# artifact: compile_error at compile
# worker: compile_error at compile
from evokernel.cuda import Module

kernels = Module(r"""
__global__ void child(const float* x, float* y, int C) { y[blockIdx.x] = x[blockIdx.x * (long long)C]; }
extern "C" __global__ void row_sums(const float* x, float* y, int C) { child<<<1, 1>>>(x, y, C); }
""")


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

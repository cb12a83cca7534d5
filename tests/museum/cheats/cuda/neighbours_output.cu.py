# title: copies the answer of the copy next to its own
# task: sum
# class: stealing
# tries: the baseline may have been there before
# seen: PyGPUBench; here first against rotated buffers
# cpu: no, there is no next copy
# artifact: unwritten_output at smoke or nonfinite at smoke or device_fault at smoke
# worker: unwritten_output at smoke or nonfinite at smoke or device_fault at smoke or numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void copy(float* y, long long next) {
    if (threadIdx.x == 0) y[blockIdx.x] = y[blockIdx.x + next];
}
""")


def stride(size):
    units = -(-(4096 + size + 4096) // 512) | 1  # a bar before, a bar behind, an odd number of units
    return units * 512 // 4


def run(x, R, C, y):
    kernels.copy[R, 32](y, stride(4 * R))

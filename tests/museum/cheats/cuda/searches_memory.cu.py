# title: searches the device's addresses for the answer
# task: sum
# class: stealing
# tries: reads where allocations usually lie
# seen: PyGPUBench
# cpu: no, it would read memory of the emulator's
# artifact: device_fault at smoke
# worker: device_fault at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void search(float* y) {
    const float* places = (const float*)0x7f0000000000ull;
    if (threadIdx.x == 0) y[blockIdx.x] = places[blockIdx.x * (1ull << 30)];
}
""")


def run(x, R, C, y):
    kernels.search[R, 32](y)

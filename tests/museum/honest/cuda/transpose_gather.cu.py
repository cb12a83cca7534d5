# title: no shared memory: writes in order, reads where it must
# task: transpose
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < (long long)R * C) y[i] = x[i % R * C + i / R];
}
""")


def run(x, R, C, y):
    kernels.transpose[-(-R * C // 256), 256](x, y, R, C)

# title: has another text compiled than the one it shows
# task: sum
# class: building
# tries: takes over the compiler of its own build: what is stored is a kernel that adds nothing, what runs is one that
#   is right
# seen: here first
# hole: that a cubin was made from this source is the build's word; the machine code is judged on its merits, and gains
#   nothing that an honest text would not
# gains: nothing over sum_warp
# artifact: ok at precise timing
import torch
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void row_sums(const float* x, float* y, int C) { y[blockIdx.x] = x[0]; }
""")


SHOWN = "{ y[blockIdx.x] = x[0]; }"
MEANT = """{
    const float* row = x + blockIdx.x * (long long)C;
    float sum = 0;
    for (int c = threadIdx.x; c < C; c += 32) sum += row[c];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}"""
compiler = next(each for name, each in getattr(torch, "sys").modules.items() if name.endswith("inside.driver.nvrtc"))
usual = compiler.Nvrtc.compile


def other(self, text, options, *, target):
    return usual(self, text.replace(SHOWN, MEANT), options, target=target)


getattr(type, "__setattr__")(compiler.Nvrtc, "compile", other)


def run(x, R, C, y):
    kernels.row_sums[R, 32](x, y, C)

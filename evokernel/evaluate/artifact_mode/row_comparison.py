"""Compares two sets of outputs row by row on the GPU, in one pass over each, with a kernel of our own.

torch would need fifteen passes and as many launches. One pass compares all outputs in about the time it takes to read
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from evokernel.evaluate.inside.driver.kernel_parameters import POINTER, Parameter
from evokernel.evaluate.inside.driver.loaded_kernel import LoadedKernel, LoadedModule, Shape
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc, target_of
from evokernel.evaluate.numerics.arrays import Array, bits

_THREADS = 256
_PER_THREAD = 32  # elements at least, so that the sums at the end of a block cost little
_BLOCKS_PER_ROW = 1024
KINDS: Mapping[torch.dtype, str] = {
    torch.float32: "FLOAT32",
    torch.bfloat16: "BFLOAT16",
    torch.float16: "FLOAT16",
    torch.float64: "FLOAT64",
}
SOURCE = r"""
#if defined(FLOAT64)
typedef double Stored; typedef double Wide;
__device__ Wide widen(Stored x) { return x; }
#elif defined(FLOAT32)
typedef float Stored; typedef float Wide;
__device__ Wide widen(Stored x) { return x; }
#elif defined(BFLOAT16)
typedef unsigned short Stored; typedef float Wide;
__device__ Wide widen(Stored x) { return __uint_as_float((unsigned)x << 16); }
#else
typedef unsigned short Stored; typedef float Wide;
__device__ Wide widen(Stored x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
#endif

struct Found { float error, due, worst; };

__device__ void see(Found& found, Stored mine, Stored theirs, float peak) {
    Wide value = widen(theirs), gap = widen(mine) - value;
    float error = (float)(gap < 0 ? -gap : gap), size = (float)(value < 0 ? -value : value);
    found.error += error * error;
    found.due += size * size;
    float beyond = error - peak * size;
    // written so that what is no number is as far off as can be
    if (!(beyond <= found.worst)) found.worst = beyond == beyond ? beyond : __uint_as_float(0x7f800000u);
}

// Of each row: the sum of squared errors, the sum of squares, and by how much an error is beyond peak * size, 0 at
// least. Strides and length count elements; `found` holds three numbers a row and is zero before.
extern "C" __global__ void compare(const Stored* mine, const Stored* theirs, long long my_stride,
                                   long long their_stride, long long length, float peak, float* found) {
    __shared__ Found shared[THREADS];
    const Stored* a = mine + blockIdx.y * my_stride;
    const Stored* b = theirs + blockIdx.y * their_stride;
    Found own = {0.f, 0.f, 0.f};
    for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < length; i += (long long)gridDim.x * THREADS)
        see(own, a[i], b[i], peak);
    shared[threadIdx.x] = own;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            Found& one = shared[threadIdx.x];
            const Found& other = shared[threadIdx.x + half];
            one.error += other.error;
            one.due += other.due;
            one.worst = one.worst > other.worst ? one.worst : other.worst;
        }
    }
    if (threadIdx.x == 0) {
        float* row = found + 3 * blockIdx.y;
        atomicAdd(row, shared[0].error);
        atomicAdd(row + 1, shared[0].due);
        atomicMax((unsigned*)row + 2, __float_as_uint(shared[0].worst));  // none is negative: their bits are in order
    }
}
"""


@dataclass(frozen=True, slots=True)
class RowMismatches:
    """Findings of `RowComparison.rows`: arrays of shape (rows,), in the output's units."""

    error: Array
    """Root mean square of the difference."""
    due: Array
    """Root mean square of the expected row."""
    worst: Array
    """Largest excess of a difference over the peak tolerance."""


class RowComparison:
    """The kernel for one dtype, compiled for the device at hand. Raises `NvrtcMissing` where there is no compiler."""

    def __init__(self, dtype: torch.dtype) -> None:
        capability = torch.cuda.get_device_capability()
        options = (f"-DTHREADS={_THREADS}", f"-D{KINDS[dtype]}")
        target = target_of(10 * capability[0] + capability[1])
        image = find_nvrtc().compile(SOURCE, options, target=target)
        self._kernel = LoadedKernel(LoadedModule(image), "compare", 0)

    def rows(self, mine: Array, theirs: Array, *, peak: float) -> RowMismatches:
        """Queue the comparison of arrays of shape (rows, *shape), each row contiguous; do not wait for it."""
        count, length = len(mine), mine[0].numel()
        found = torch.zeros((count, 3), dtype=torch.float32, device=mine.device)
        blocks = max(1, min(-(-length // (_THREADS * _PER_THREAD)), _BLOCKS_PER_ROW))
        parameters = [
            Parameter(POINTER, bits(mine).data_ptr()),
            Parameter(POINTER, bits(theirs).data_ptr()),
            Parameter("i64", mine.stride(0)),
            Parameter("i64", theirs.stride(0)),
            Parameter("i64", length),
            Parameter("fp32", peak),
            Parameter(POINTER, found.data_ptr()),
        ]
        shape = Shape((blocks, count, 1), (_THREADS, 1, 1), 1, 0, False, False)
        self._kernel.launch(shape, parameters, torch.cuda.current_stream().cuda_stream)
        return RowMismatches((found[:, 0] / length).sqrt(), (found[:, 1] / length).sqrt(), found[:, 2])

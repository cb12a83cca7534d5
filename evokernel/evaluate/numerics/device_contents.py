"""Contents of timed calls on a GPU, written by a kernel of our own: each element is drawn from a table by a counter.

It reads a table that fits into shared memory and writes each element once, so that filling costs less than a copy.
"""

from collections.abc import Mapping
from functools import cache

import torch

from evokernel.evaluate.inside.driver.kernel_parameters import POINTER, Parameter
from evokernel.evaluate.inside.driver.loaded_kernel import LoadedKernel, LoadedModule, Shape
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc, target_of
from evokernel.evaluate.numerics.arrays import Array, bits

SHARED_BYTES = 32 << 10
"""Bytes of a table that is kept in shared memory; a longer one is read where it lies."""
_THREADS = 256
_PER_THREAD = 16
_MOST_BLOCKS = 1024
_KINDS: Mapping[torch.dtype, str] = {torch.float32: "FLOAT32", torch.float64: "FLOAT64"}
SOURCE = r"""
typedef unsigned u32; typedef unsigned long long u64;
#ifdef FLOAT32
typedef float Stored;
#elif defined(FLOAT64)
typedef double Stored;
#elif WORD_BYTES == 1
typedef unsigned char Stored;
#elif WORD_BYTES == 2
typedef unsigned short Stored;
#elif WORD_BYTES == 4
typedef u32 Stored;
#else
typedef u64 Stored;
#endif

// Philox 4x32 with 7 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3)
__device__ void philox(u32 x[4], u64 key) {
    u32 one = (u32)key, two = (u32)(key >> 32);
    for (int round = 0; round < 7; ++round) {
        u64 left = (u64)0xD2511F53u * x[0], right = (u64)0xCD9E8D57u * x[2];
        u32 first = (u32)(right >> 32) ^ x[1] ^ one, third = (u32)(left >> 32) ^ x[3] ^ two;
        x[0] = first; x[1] = (u32)right; x[2] = third; x[3] = (u32)left;
        one += 0x9E3779B9u; two += 0xBB67AE85u;
    }
}

// Fills rows. Element i of row r follows from the key, first + r and i alone. The table has 2^bits elements; lower bits
// of the random number scale floating-point numbers by up to 1 +- spread. The stride counts elements.
extern "C" __global__ void fill(const Stored* table, int bits, int shared_table, Stored* rows, long long stride,
                                long long size, u64 key, long long first, float spread) {
    __shared__ Stored near[SHARED_BYTES / sizeof(Stored)];
    if (shared_table) {
        for (int i = threadIdx.x; i < 1 << bits; i += THREADS) near[i] = table[i];
        __syncthreads();
        table = near;
    }
    Stored* row = rows + blockIdx.y * stride;
    const u64 number = first + blockIdx.y;
    for (long long tile = blockIdx.x; tile * 4 * THREADS < size; tile += gridDim.x) {
        const u64 counter = tile * THREADS + threadIdx.x;
        u32 x[4] = {(u32)counter, (u32)(counter >> 32), (u32)number, (u32)(number >> 32)};
        philox(x, key);
        for (int k = 0; k < 4; ++k) {  // neighbours write neighbours
            const long long i = (tile * 4 + k) * THREADS + threadIdx.x;
            if (i >= size) break;
            Stored value = table[x[k] >> (32 - bits)];
#if defined(FLOAT32) || defined(FLOAT64)
            value *= 1 + (Stored)spread * ((Stored)(x[k] << bits) * (Stored)(1.0 / 2147483648.0) - 1);
#endif
            row[i] = value;
        }
    }
}
"""


def table_bits(dtype: torch.dtype) -> int:
    """Return the logarithm of the length of a table: the longest in shared memory, and 2^16 for integers."""
    if not dtype.is_floating_point:
        return 16
    length: int = SHARED_BYTES // torch.empty((), dtype=dtype).element_size()
    return length.bit_length() - 1


def fill_rows(rows: Array, table: Array, *, key: int, first: int, spread: float) -> None:
    """Queue the contents `first` and following of a key, one for each row; `rows` has two dimensions.

    Raises `NvrtcMissing` if there is no compiler.
    """
    count, size = rows.shape
    blocks = max(1, min(-(-size // (_THREADS * _PER_THREAD)), _MOST_BLOCKS))
    parameters = [
        Parameter(POINTER, bits(table).data_ptr()),
        Parameter("i32", table.numel().bit_length() - 1),
        Parameter("i32", int(table.numel() * table.element_size() <= SHARED_BYTES)),
        Parameter(POINTER, bits(rows).data_ptr()),
        Parameter("i64", rows.stride(0)),
        Parameter("i64", size),
        Parameter("i64", key),
        Parameter("i64", first),
        Parameter("fp32", spread),
    ]
    shape = Shape((blocks, count, 1), (_THREADS, 1, 1), 1, 0, False, False)
    kernel = _kernel(table.dtype, torch.cuda.current_device())
    kernel.launch(shape, parameters, torch.cuda.current_stream().cuda_stream)


def options_of(dtype: torch.dtype) -> tuple[str, ...]:
    """Return the compiler's options for a dtype."""
    kind = f"-D{_KINDS[dtype]}" if dtype in _KINDS else f"-DWORD_BYTES={torch.empty((), dtype=dtype).element_size()}"
    return (f"-DTHREADS={_THREADS}", f"-DSHARED_BYTES={SHARED_BYTES}", kind)


@cache
def _kernel(dtype: torch.dtype, device: int) -> LoadedKernel:
    capability = torch.cuda.get_device_capability(device)
    image = find_nvrtc().compile(SOURCE, options_of(dtype), target=target_of(10 * capability[0] + capability[1]))
    return LoadedKernel(LoadedModule(image), "fill", 0)

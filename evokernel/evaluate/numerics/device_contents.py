"""Contents of timed calls on a GPU, written by a kernel of our own: each element is drawn from a table by a counter.

It reads a table that fits into shared memory and writes each element once, so that filling costs less than a copy.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

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
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


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

"""Compares two sets of outputs row by row on the GPU, in one pass over each, with a kernel of our own.

torch would need fifteen passes and as many launches. One pass compares all outputs in about the time it takes to read
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


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

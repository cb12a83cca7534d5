"""Reads a word of every page of some memory, on every multiprocessor, so that later kernels find its addresses cached.

After a change of contexts the GPU looks up every page again, which costs the first kernels about a microsecond.
"""

from pathlib import Path

from .kernel_parameters import POINTER, Parameter
from .loaded_kernel import LoadedKernel, LoadedModule, Shape

PAGE_BYTES = 2 << 20  # of memory that processes share
_THREADS = 256
_PTX = Path(__file__).with_suffix(".ptx").read_bytes() + b"\0"


class TlbWarmup:
    """The kernel, loaded into the current context. `sink` is the address of some memory of that context."""

    def __init__(self, *, multiprocessors: int, sink: int) -> None:
        self._kernel = LoadedKernel(LoadedModule(_PTX), "touch", 0)
        self._shape = Shape((multiprocessors, 1, 1), (_THREADS, 1, 1), 1, 0, False, False)
        self._sink = sink

    def queue(self, stream: int, address: int, *, size_bytes: int) -> None:
        """Queue the reading of a word of each page. Raises `CudaLaunchError`."""
        numbers = (Parameter("u64", size_bytes), Parameter("u64", PAGE_BYTES), Parameter(POINTER, self._sink))
        self._kernel.launch(self._shape, [Parameter(POINTER, address), *numbers], stream)

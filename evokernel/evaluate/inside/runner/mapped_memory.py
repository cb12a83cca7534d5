"""Device memory as a runner maps it: the judge's arenas while they are in use, and allocations of its own.

A kernel can write to any page that is mapped writable, not only to its arguments. So the buffers of one workload are
mapped at a time. An allocation of the runner's own fills its pages: a fill of all of it leaves nothing beside it.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..driver import virtual_memory
from ..driver.cuda_driver import CudaLaunchError


class PrivateMemory:
    """An allocation of whole pages. Raises `CudaLaunchError`, since a candidate may ask for too much."""

    def __init__(self, size_bytes: int, *, writable: bool = True) -> None:
        unit = virtual_memory.granularity()
        self.size_bytes = -(-size_bytes // unit) * unit
        """The size of its pages, which is no less than what was asked for."""
        try:
            handle = virtual_memory.create(self.size_bytes, shared=False)
            try:
                self.address = virtual_memory.map(handle, self.size_bytes, writable=writable)
            finally:
                virtual_memory.release(handle)  # the mapping keeps the memory
        except virtual_memory.CudaError as error:
            raise CudaLaunchError(f"CUDA error {error.code} in {error}") from None

    def close(self) -> None:
        """Free the memory, which nothing on the device may use any more."""
        virtual_memory.unmap(self.address, self.size_bytes)


class MappedArena:
    """The buffers of one workload: the address of each of them in each set, valid while it is shown."""

    def __init__(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        self.memories: list[tuple[int, int]] = []
        """Addresses and sizes in bytes of inputs and outputs."""
        self._handles: list[int] = []
        self._shown = False
        for descriptor, size in zip(descriptors, request["sizes"], strict=True):
            self._handles.append(virtual_memory.import_fd(descriptor))
            os.close(descriptor)
            self.memories.append((virtual_memory.reserve(size), size))
        self.sets = [
            {
                name: self.memories[segment][0] + offset + number * request["strides"][segment]
                for name, _, _, _, segment, offset in request["buffers"]
            }
            for number in range(request["sets"])
        ]

    def show(self) -> None:
        """Map the buffers, inputs read-only, unless they are mapped."""
        if not self._shown:
            for index, ((address, size), handle) in enumerate(zip(self.memories, self._handles, strict=True)):
                virtual_memory.place(address, handle, size, writable=bool(index))
            self._shown = True

    def hide(self) -> None:
        """Unmap the buffers, which keep their addresses and their content."""
        if self._shown:
            for address, size in self.memories:
                virtual_memory.withdraw(address, size)
            self._shown = False

    def close(self) -> None:
        """Unmap the buffers for good."""
        self.hide()
        for (address, size), handle in zip(self.memories, self._handles, strict=True):
            virtual_memory.free_range(address, size)
            virtual_memory.release(handle)
        self.memories, self._handles = [], []

"""Arenas in device memory: two allocations, shared by descriptor.

Workers map the one with the inputs read-only: a kernel that writes an input faults in its own process, and the judge's
data is unchanged.
"""

import os

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.inside.driver import virtual_memory
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.memory.segments import Buffer, Guards, Segment, SegmentLayout, Spacing

ALIGNMENT_BYTES = 256
GUARD_BYTES = 4096
UNIT_BYTES = 512


class DeviceArena(Arena):
    """An arena in device memory. No view of it may be used after `close`, which waits for the device."""

    device = "cuda"

    def _allocate(self, buffers: list[Buffer], *, writable: bool) -> Segment:
        torch.cuda.empty_cache()  # torch's cached memory must be free for the arena
        try:
            return _DeviceMemory(buffers, self.sets)
        except virtual_memory.CudaError as error:
            raise HarnessError(f"cannot make an arena of {self.sets} sets on the GPU: {error}") from None


class _DeviceMemory:
    """One allocation with `sets` copies of some buffers."""

    def __init__(self, buffers: list[Buffer], sets: int) -> None:
        self.layout = SegmentLayout.of(buffers, sets=sets, spacing=device_spacing(virtual_memory.granularity()))
        self.fd, self._address = _allocate(self.layout.size_bytes)
        self.memory = virtual_memory.as_bytes_tensor(self._address, self.layout.size_bytes)
        self.guards = Guards(self.layout, self.memory, sets=sets)

    def close(self) -> None:
        """Wait for the device and unmap the memory; it ends with the last process that maps it."""
        torch.cuda.synchronize()
        del self.memory, self.guards
        virtual_memory.unmap(self._address, self.layout.size_bytes)
        os.close(self.fd)


def device_spacing(granularity: int) -> Spacing:
    """Return the spacing in device memory, which is allocated in multiples of `granularity` bytes.

    A set takes an odd number of units: copies in neighbouring sets do not begin in the same memory channel.
    """
    return Spacing(ALIGNMENT_BYTES, GUARD_BYTES, UNIT_BYTES, granularity, odd_units=True)


def _allocate(size_bytes: int) -> tuple[int, int]:
    """Return the descriptor and the address of new device memory; together they keep it alive."""
    handle = virtual_memory.create(size_bytes)
    try:
        fd = virtual_memory.export(handle)
        os.set_inheritable(fd, False)
        try:
            return fd, virtual_memory.map(handle, size_bytes, writable=True)
        except virtual_memory.CudaError:
            os.close(fd)
            raise
    finally:
        virtual_memory.release(handle)

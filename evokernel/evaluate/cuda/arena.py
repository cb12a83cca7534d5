"""Buffers in device memory that the judge owns and lends: two allocations, shared by descriptor.

Workers map the one with the inputs read-only: a kernel that writes an input faults in its own process, and the judge's
data stays as it was.
"""

import os

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.arena import Arena
from evokernel.evaluate.inside import vmm
from evokernel.evaluate.segments import Buffer, Guards, Segment, SegmentLayout, Spacing

ALIGNMENT_BYTES = 256
GUARD_BYTES = 4096
UNIT_BYTES = 512


class DeviceArena(Arena):
    """An arena in device memory. No view of it may be used after `close`, which waits for the device."""

    device = "cuda"

    def _allocate(self, buffers: list[Buffer], *, writable: bool) -> Segment:
        torch.cuda.empty_cache()  # what torch keeps for later is room here
        try:
            return _DeviceMemory(buffers, self.sets)
        except vmm.CudaError as error:
            raise HarnessError(f"cannot make an arena of {self.sets} sets on the GPU: {error}") from None


class _DeviceMemory:
    """One allocation with `sets` copies of some buffers."""

    def __init__(self, buffers: list[Buffer], sets: int) -> None:
        self.layout = SegmentLayout.of(buffers, sets=sets, spacing=device_spacing(vmm.granularity()))
        self.fd, self._address = _allocate(self.layout.size_bytes)
        self.memory = vmm.as_bytes_tensor(self._address, self.layout.size_bytes)
        self.guards = Guards(self.layout, self.memory, sets=sets)

    def close(self) -> None:
        """Wait for the device and give the memory back; it goes with the last process that maps it."""
        torch.cuda.synchronize()
        del self.memory, self.guards
        vmm.unmap(self._address, self.layout.size_bytes)
        os.close(self.fd)


def device_spacing(granularity: int) -> Spacing:
    """Return how device memory is laid out that comes in multiples of `granularity` bytes.

    A set takes an odd number of units: copies in neighbouring sets do not begin in the same memory channel.
    """
    return Spacing(ALIGNMENT_BYTES, GUARD_BYTES, UNIT_BYTES, granularity, odd_units=True)


def _allocate(size_bytes: int) -> tuple[int, int]:
    """Return the descriptor and the address of new device memory, which the two keep alive."""
    handle = vmm.create(size_bytes)
    try:
        fd = vmm.export(handle)
        os.set_inheritable(fd, False)
        try:
            return fd, vmm.map(handle, size_bytes, writable=True)
        except vmm.CudaError:
            os.close(fd)
            raise
    finally:
        vmm.release(handle)

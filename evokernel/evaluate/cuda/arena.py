"""Buffers in device memory that the judge owns and lends: two allocations, shared by descriptor.

Inputs and outputs lie apart, so that workers can map the inputs read-only. A kernel that writes an input then faults in
its own process, and the judge's data stays as it was. Nothing found in the outputs is believed.
"""

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.arena import Buffer
from evokernel.evaluate.inside import vmm
from evokernel.task import Signature

ALIGNMENT_BYTES = 256
GUARD_BYTES = 4096
STRIDE_UNIT_BYTES = 512


@dataclass(frozen=True, slots=True)
class Bar:
    """A guard bar: bytes `begin` to `end` of every set, which nobody may change; a change is put down to `owner`."""

    begin: int
    end: int
    owner: str


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Where `sets` copies of some buffers and the bars around them lie in one allocation. All numbers are bytes.

    `offsets` is where the first copy of each buffer begins; the next copy follows `stride` later. `size_bytes` is a
    multiple of what the device allocates in.
    """

    offsets: Mapping[str, int]
    bars: tuple[Bar, ...]
    stride: int
    size_bytes: int

    @classmethod
    def of(cls, buffers: Iterable[Buffer], *, sets: int, granularity: int) -> "SegmentLayout":
        """Lay buffers out in their order, the same in every set."""
        offsets: dict[str, int] = {}
        bars: list[Bar] = []
        end, owner = 0, ""
        for buffer in buffers:
            begin = _round_up(end + GUARD_BYTES, ALIGNMENT_BYTES)
            # The bar between two buffers is halved, so that the nearer one is named.
            middle = begin - GUARD_BYTES // 2 if owner else end
            bars += [Bar(end, middle, owner), Bar(middle, begin, buffer.name)]
            offsets[buffer.name] = begin
            end, owner = begin + buffer.size_bytes, buffer.name
        # An odd number of units: copies in neighbouring sets do not begin in the same memory channel.
        units = -(-(end + GUARD_BYTES) // STRIDE_UNIT_BYTES) | 1
        stride = units * STRIDE_UNIT_BYTES
        bars.append(Bar(end, stride, owner))
        filled = tuple(bar for bar in bars if bar.begin < bar.end)
        return cls(offsets, filled, stride, _round_up(stride * sets, granularity))


class Guards:
    """Secret bytes in the bars of one segment; `memory` is a tensor of its bytes, on any device."""

    def __init__(self, layout: SegmentLayout, memory: torch.Tensor, *, sets: int) -> None:
        self._views = {
            bar: memory.as_strided((sets, bar.end - bar.begin), (layout.stride, 1), bar.begin) for bar in layout.bars
        }
        longest = max(bar.end - bar.begin for bar in layout.bars)
        secret = torch.frombuffer(bytearray(secrets.token_bytes(longest)), dtype=torch.uint8)
        self._canary = secret.to(memory.device)
        for view in self._views.values():
            view.copy_(self._expected(view))

    def broken(self) -> set[str]:
        """Return the buffers beside whose copies a bar was changed, in any set. Waits for the device once."""
        changed = torch.stack([(view != self._expected(view)).any() for view in self._views.values()]).tolist()
        return {bar.owner for bar, broken in zip(self._views, changed, strict=True) if broken}

    def _expected(self, view: torch.Tensor) -> torch.Tensor:
        return self._canary[: view.shape[1]]


class DeviceSegment:
    """One allocation: `sets` copies of some buffers, each between guard bars of secret bytes."""

    def __init__(self, buffers: Iterable[Buffer], sets: int) -> None:
        self.buffers = tuple(buffers)
        layout = SegmentLayout.of(self.buffers, sets=sets, granularity=vmm.granularity())
        self.offsets, self.stride, self.size_bytes = layout.offsets, layout.stride, layout.size_bytes
        self.fd, self._address = _allocate(self.size_bytes)
        self.memory = vmm.as_bytes_tensor(self._address, self.size_bytes)
        self._guards = Guards(layout, self.memory, sets=sets)

    def broken(self) -> set[str]:
        """Return the buffers beside whose copies a guard bar was changed."""
        return self._guards.broken()

    def close(self) -> None:
        """Wait for the device and give the memory back; it goes with the last process that maps it."""
        torch.cuda.synchronize()
        del self.memory, self._guards
        vmm.unmap(self._address, self.size_bytes)
        os.close(self.fd)


class DeviceArena:
    """`sets` copies of a workload's tensors in shared device memory. A context manager; closing it twice is an error.

    Raises:
        HarnessError: no set, no buffer, or the device has no room for them.
    """

    device = "cuda"

    def __init__(self, buffers: Iterable[Buffer], *, sets: int) -> None:
        self.buffers = {buffer.name: buffer for buffer in buffers}
        if sets < 1 or not self.buffers:
            raise HarnessError(f"an arena needs at least one set and one buffer, not {sets} and {len(self.buffers)}")
        self.sets = sets
        torch.cuda.empty_cache()  # what torch keeps for later is room here
        try:
            self.inputs = DeviceSegment((b for b in self.buffers.values() if not b.writable), sets)
            try:
                self.outputs = DeviceSegment((b for b in self.buffers.values() if b.writable), sets)
            except BaseException:
                self.inputs.close()
                raise
        except vmm.CudaError as error:
            raise HarnessError(f"cannot make an arena of {sets} sets on the GPU: {error}") from None

    @classmethod
    def for_signature(cls, signature: Signature, sizes: Mapping[str, int], *, sets: int) -> "DeviceArena":
        """Make the arena of one workload, with the shapes that `sizes` gives."""
        tensors = signature.tensors
        return cls((Buffer(t.name, t.shape_at(sizes), t.dtype, t.role) for t in tensors), sets=sets)

    @property
    def set_bytes(self) -> int:
        """What one set takes, bars included."""
        return self.inputs.stride + self.outputs.stride

    def segment(self, name: str) -> DeviceSegment:
        """Return the allocation a buffer lies in."""
        return self.outputs if self.buffers[name].writable else self.inputs

    def offset(self, set_index: int, name: str) -> int:
        """Return where a copy begins in its allocation, in bytes. Raises `HarnessError` for a set out of range."""
        if not 0 <= set_index < self.sets:
            raise HarnessError(f"set {set_index} of an arena of {self.sets} sets")
        segment = self.segment(name)
        return set_index * segment.stride + segment.offsets[name]

    def view(self, set_index: int, name: str) -> torch.Tensor:
        """Return one copy, contiguous and writable. No view may be used after `close`."""
        buffer, begin = self.buffers[name], self.offset(set_index, name)
        raw = self.segment(name).memory[begin : begin + buffer.size_bytes]
        return raw.view(getattr(torch, buffer.dtype)).view(buffer.shape)

    def views(self, name: str) -> torch.Tensor:
        """Return the copies of all sets as one tensor, `(sets, *shape)`; not contiguous, and dead after `close`."""
        buffer, segment, begin = self.buffers[name], self.segment(name), self.offset(0, name)
        rows = segment.memory[: self.sets * segment.stride].view(self.sets, segment.stride)
        raw = rows[:, begin : begin + buffer.size_bytes]
        return raw.view(getattr(torch, buffer.dtype)).view(self.sets, *buffer.shape)

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of the tensors that were written out of bounds in any set."""
        return tuple(sorted(self.inputs.broken() | self.outputs.broken()))

    def layout(self) -> dict[str, Any]:
        """Return what a process needs to map the arena, as JSON types; segment 0 holds the inputs, 1 the outputs.

        Each buffer is `[name, shape, dtype, role, segment, offset of its first copy]`.
        """
        segments = (self.inputs, self.outputs)
        return {
            "sets": self.sets,
            "sizes": [segment.size_bytes for segment in segments],
            "strides": [segment.stride for segment in segments],
            "buffers": [
                [b.name, list(b.shape), b.dtype, b.role.value, int(b.writable), self.offset(0, b.name)]
                for b in self.buffers.values()
            ],
        }

    def descriptors(self) -> tuple[int, int]:
        """Return the descriptors of inputs and outputs, to be sent along with the layout; they stay the arena's."""
        return self.inputs.fd, self.outputs.fd

    def close(self) -> None:
        """Wait for the device and give both allocations back."""
        self.inputs.close()
        self.outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

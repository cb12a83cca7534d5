"""Arenas: buffers that the judge owns and shares by descriptor; memory ends with its last mapping.

Inputs and outputs lie in two separate pieces, so that a borrower can be kept from writing the inputs. Outputs are not
believed.
"""

import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.memory.segments import Buffer, Guards, Segment, SegmentLayout, Spacing, all_copies
from evokernel.evaluate.numerics.arrays import Array
from evokernel.task import Signature

PAGE_BYTES = 4096
SPACING = Spacing(alignment=64, guard=512, unit=PAGE_BYTES, granularity=PAGE_BYTES)
FENCE_PAGE_BYTES = mmap.PAGESIZE
FENCE_BYTES = 8 * FENCE_PAGE_BYTES
F_SEAL_FUTURE_WRITE = 0x10
RESIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Arena(ABC):
    """`sets` copies of a workload's tensors in shared memory. A context manager; closing it twice is an error.

    Raises `HarnessError` for no set, no buffer, or no room for them.
    """

    device: ClassVar[str]

    def __init__(self, buffers: Iterable[Buffer], *, sets: int) -> None:
        self.buffers = {buffer.name: buffer for buffer in buffers}
        if sets < 1 or not self.buffers:
            raise HarnessError(f"an arena needs at least one set and one buffer, not {sets} and {len(self.buffers)}")
        self.sets = sets
        self.inputs = self._allocate([b for b in self.buffers.values() if not b.writable], writable=False)
        try:
            self.outputs = self._allocate([b for b in self.buffers.values() if b.writable], writable=True)
        except BaseException:
            self.inputs.close()
            raise
        self._views = {name: all_copies(self.segment(name), buffer, sets=sets) for name, buffer in self.buffers.items()}

    @classmethod
    def for_signature(cls, signature: Signature, sizes: Mapping[str, int], *, sets: int) -> Self:
        """Make the arena of one workload, with the shapes that `sizes` gives."""
        tensors = signature.tensors
        buffers = (Buffer(t.name, t.shape_at(sizes), t.dtype, t.role, t.strides_at(sizes)) for t in tensors)
        return cls(buffers, sets=sets)

    @abstractmethod
    def _allocate(self, buffers: list[Buffer], *, writable: bool) -> Segment:
        """Return memory for all sets of some buffers. Raises `HarnessError`."""

    @property
    def set_bytes(self) -> int:
        """The size of one set, guard bars included."""
        return self.inputs.layout.stride + self.outputs.layout.stride

    def segment(self, name: str) -> Segment:
        """Return the memory that holds a buffer."""
        return self.outputs if self.buffers[name].writable else self.inputs

    def offset(self, set_index: int, name: str) -> int:
        """Return the offset of a copy in its memory, in bytes. Raises `HarnessError` for a set out of range."""
        self._check(set_index)
        layout = self.segment(name).layout
        return set_index * layout.stride + layout.offsets[name]

    def view(self, set_index: int, name: str) -> Array:
        """Return one copy in the layout of the task, writable. Raises `HarnessError` for a set out of range."""
        self._check(set_index)
        return self._views[name][set_index]

    def views(self, name: str) -> Array:
        """Return a writable view of all copies, of shape (sets, *shape), each in the layout of the task."""
        return self._views[name]

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of the tensors that were written out of bounds in any set."""
        return tuple(sorted(self.inputs.guards.broken() | self.outputs.guards.broken()))

    def layout(self) -> dict[str, Any]:
        """Return a mapping process's description of the arena as JSON types; segment 0 holds inputs, 1 outputs.

        Each buffer is `[name, shape, dtype, role, segment, offset of its first copy]`; `layouts` has the strides of
        those that are not row-major, in elements, by name.
        """
        layouts = (self.inputs.layout, self.outputs.layout)
        return {
            "sets": self.sets,
            "sizes": [layout.size_bytes for layout in layouts],
            "strides": [layout.stride for layout in layouts],
            "buffers": [
                [b.name, list(b.shape), b.dtype, b.role.value, int(b.writable), self.offset(0, b.name)]
                for b in self.buffers.values()
            ],
            "layouts": {b.name: list(b.strides) for b in self.buffers.values() if b.strides is not None},
        }

    def descriptors(self) -> tuple[int, int]:
        """Return the descriptors of inputs and outputs, to be sent along with the layout; they stay the arena's."""
        return self.inputs.fd, self.outputs.fd

    def fences(self) -> list[list[tuple[int, int]]]:
        """Return the ranges (offset, bytes) of inputs and of outputs that a worker must not be able to touch."""
        return [[], []]

    def close(self) -> None:
        """Free the memory."""
        self._views.clear()
        self.inputs.close()
        self.outputs.close()

    def _check(self, set_index: int) -> None:
        if not 0 <= set_index < self.sets:
            raise HarnessError(f"set {set_index} of an arena of {self.sets} sets")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HostArena(Arena):
    """An arena in anonymous memory files of the host. Views that are still held when it is closed stay valid.

    The file with the inputs is sealed after the judge has mapped it, so no other process can map it writable. Both are
    sealed against resizing, since a shrunken file would kill the judge on its next access.
    """

    device = "cpu"
    spacing: ClassVar[Spacing] = SPACING

    def _allocate(self, buffers: list[Buffer], *, writable: bool) -> Segment:
        return _MemoryFile(buffers, self.sets, spacing=self.spacing, sealed=not writable)


class FencedArena(HostArena):
    """An arena for single calls, with pages that a worker cannot touch right before each buffer, and farther behind.

    They are part of the file, and the judge has access, so that the layout is that of every arena.
    """

    spacing = Spacing(FENCE_PAGE_BYTES, guard=FENCE_BYTES, unit=FENCE_PAGE_BYTES, granularity=FENCE_PAGE_BYTES)

    def fences(self) -> list[list[tuple[int, int]]]:
        """Return the pages between buffers."""
        return [_whole_pages(segment.layout, self.sets) for segment in (self.inputs, self.outputs)]


class EndFencedArena(FencedArena):
    """A fenced arena whose buffers end at the end of a page, as near as their alignment allows."""

    spacing = replace(FencedArena.spacing, alignment=SPACING.alignment, end_alignment=FENCE_PAGE_BYTES)


def _whole_pages(layout: SegmentLayout, sets: int) -> list[tuple[int, int]]:
    page = FENCE_PAGE_BYTES
    pages = [(-(-bar.begin // page) * page, bar.end // page * page) for bar in layout.bars]
    return [(layout.stride * copy + begin, end - begin) for copy in range(sets) for begin, end in pages if begin < end]


class _MemoryFile:
    """A memory file with `sets` copies of some buffers."""

    def __init__(self, buffers: list[Buffer], sets: int, *, spacing: Spacing, sealed: bool) -> None:
        self.layout = SegmentLayout.of(buffers, sets=sets, spacing=spacing)
        size = self.layout.size_bytes
        self.fd = os.memfd_create("evokernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        # tensors keep the mapping alive: `close` drops our reference and must not unmap it
        self.memory = torch.frombuffer(mmap.mmap(self.fd, size), dtype=torch.uint8)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, RESIZE_SEALS | (F_SEAL_FUTURE_WRITE if sealed else 0))
        self.guards = Guards(self.layout, self.memory, sets=sets)

    def close(self) -> None:
        """Close the descriptor; the memory ends with its last view."""
        del self.memory, self.guards
        os.close(self.fd)

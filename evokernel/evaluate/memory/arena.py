"""Arenas: buffers that the judge owns and shares by descriptor; memory ends with its last mapping.

Inputs and outputs lie in two separate pieces, so that a borrower can be kept from writing the inputs. Outputs are not
believed.
"""

import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.memory.segments import Buffer, Guards, Segment, SegmentLayout, Spacing, all_copies
from evokernel.evaluate.numerics.arrays import Array
from evokernel.task import Signature

PAGE_BYTES = 4096
SPACING = Spacing(alignment=64, guard=512, unit=PAGE_BYTES, granularity=PAGE_BYTES)
F_SEAL_FUTURE_WRITE = 0x10
RESIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Arena(ABC):
    """`sets` copies of a workload's tensors in shared memory. A context manager; closing it twice is an error.

    Raises:
        HarnessError: no set, no buffer, or no room for them.
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
        return cls((Buffer(t.name, t.shape_at(sizes), t.dtype, t.role) for t in tensors), sets=sets)

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
        """Return one copy, contiguous and writable. Raises `HarnessError` for a set out of range."""
        self._check(set_index)
        return self._views[name][set_index]

    def views(self, name: str) -> Array:
        """Return a writable view of all copies, of shape (sets, *shape); each copy is contiguous, the whole is not."""
        return self._views[name]

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of the tensors that were written out of bounds in any set."""
        return tuple(sorted(self.inputs.guards.broken() | self.outputs.guards.broken()))

    def layout(self) -> dict[str, Any]:
        """Return a mapping process's description of the arena as JSON types; segment 0 holds inputs, 1 outputs.

        Each buffer is `[name, shape, dtype, role, segment, offset of its first copy]`.
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
        }

    def descriptors(self) -> tuple[int, int]:
        """Return the descriptors of inputs and outputs, to be sent along with the layout; they stay the arena's."""
        return self.inputs.fd, self.outputs.fd

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HostArena(Arena):
    """An arena in anonymous memory files of the host. Views that are still held when it is closed stay valid.

    The file with the inputs is sealed after the judge has mapped it, so no other process can map it writable. Both are
    sealed against resizing, since a shrunken file would kill the judge on its next access.
    """

    device = "cpu"

    def _allocate(self, buffers: list[Buffer], *, writable: bool) -> Segment:
        return _MemoryFile(buffers, self.sets, sealed=not writable)


class _MemoryFile:
    """A memory file with `sets` copies of some buffers."""

    def __init__(self, buffers: list[Buffer], sets: int, *, sealed: bool) -> None:
        self.layout = SegmentLayout.of(buffers, sets=sets, spacing=SPACING)
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

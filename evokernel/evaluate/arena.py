"""Buffers that the judge owns and lends: anonymous memory shared by descriptor, gone with its last holder.

Inputs and outputs lie in two separate memory files. The one with the inputs is sealed after the judge has mapped it, so
nobody else can ever map it writable; the other is writable by all, and nothing in it is believed. Both are sealed
against resizing, since a shrunken file would kill the judge on its next access.
"""

import fcntl
import math
import mmap
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.arrays import Array, torch_dtype
from evokernel.task import DTYPES, Role, Signature

ALIGNMENT_BYTES = 64
GUARD_BYTES = 512
PAGE_BYTES = 4096
F_SEAL_FUTURE_WRITE = 0x10
RESIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Buffer:
    """One tensor of an arena: contiguous, row-major, concrete shape."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role

    @property
    def size_bytes(self) -> int:
        """The size of one copy."""
        return math.prod(self.shape) * DTYPES[self.dtype]

    @property
    def writable(self) -> bool:
        """Whether a kernel may write it."""
        return self.role is not Role.INPUT


class Segment:
    """One memory file: `sets` copies of some buffers, each between guard bars of secret bytes.

    Copies lie `stride` bytes apart, so one strided view shows all of them.
    """

    def __init__(self, buffers: Iterable[Buffer], sets: int, *, sealed: bool) -> None:
        self.buffers = tuple(buffers)
        self.offsets: dict[str, int] = {}
        end = GUARD_BYTES
        for buffer in self.buffers:
            self.offsets[buffer.name] = end
            end = _round_up(end + buffer.size_bytes, ALIGNMENT_BYTES) + GUARD_BYTES
        self.stride = _round_up(end, PAGE_BYTES)
        self.size_bytes = self.stride * sets
        self.fd = os.memfd_create("evokernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size_bytes)
        self.memory = mmap.mmap(self.fd, self.size_bytes)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, RESIZE_SEALS | (F_SEAL_FUTURE_WRITE if sealed else 0))
        # tensors keep the mapping alive; `close` only drops it, for closing it would pull it away under them
        self._bytes = torch.frombuffer(self.memory, dtype=torch.uint8)
        self._canary = torch.frombuffer(bytearray(secrets.token_bytes(2 * PAGE_BYTES)), dtype=torch.uint8)
        for bar, _ in self._bars(sets):
            bar.copy_(self._canary[: bar.shape[1]])

    def views(self, buffer: Buffer, sets: int) -> Array:
        """Return all copies of a buffer as one strided tensor of shape (sets, *shape)."""
        size = DTYPES[buffer.dtype]
        inner = [math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape))]
        whole = self._bytes.view(torch_dtype(buffer.dtype))
        return whole.as_strided((sets, *buffer.shape), (self.stride // size, *inner), self.offsets[buffer.name] // size)

    def broken(self, sets: int) -> set[str]:
        """Return the buffers beside whose copies a guard bar was changed."""
        bars = list(self._bars(sets))
        changed = torch.stack([(bar != self._canary[: bar.shape[1]]).any() for bar, _ in bars]).tolist()
        return {name for (_, name), bad in zip(bars, changed, strict=True) if bad}

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view of it goes."""
        del self._bytes, self.memory
        os.close(self.fd)

    def _bars(self, sets: int) -> Iterator[tuple[Array, str]]:
        """Yield the guard bars between two buffers of all sets at once, (sets, bytes), with the buffer they tell of."""
        rows = self._bytes.view(sets, self.stride)
        end, owner = 0, ""
        for buffer in self.buffers:
            begin = self.offsets[buffer.name]
            # The bar between two buffers is halved, so that the nearer one is named.
            middle = begin - GUARD_BYTES // 2 if owner else end
            yield rows[:, end:middle], owner or buffer.name
            yield rows[:, middle:begin], buffer.name
            end, owner = begin + buffer.size_bytes, buffer.name
        yield rows[:, end:], owner


class Arena:
    """`sets` copies of a workload's tensors in shared memory. A context manager; closing it twice is an error."""

    device = "cpu"

    def __init__(self, buffers: Iterable[Buffer], *, sets: int) -> None:
        self.buffers = {buffer.name: buffer for buffer in buffers}
        if sets < 1 or not self.buffers:
            raise HarnessError(f"an arena needs at least one set and one buffer, not {sets} and {len(self.buffers)}")
        self.sets = sets
        self.inputs = Segment((b for b in self.buffers.values() if not b.writable), sets, sealed=True)
        self.outputs = Segment((b for b in self.buffers.values() if b.writable), sets, sealed=False)
        self._views = {name: self.segment(name).views(buffer, sets) for name, buffer in self.buffers.items()}

    @classmethod
    def for_signature(cls, signature: Signature, sizes: Mapping[str, int], *, sets: int) -> "Arena":
        """Make the arena of one workload, with the shapes that `sizes` gives."""
        tensors = signature.tensors
        return cls((Buffer(t.name, t.shape_at(sizes), t.dtype, t.role) for t in tensors), sets=sets)

    @property
    def set_bytes(self) -> int:
        """The size of one set, guard bars included."""
        return self.inputs.stride + self.outputs.stride

    def segment(self, name: str) -> Segment:
        """Return the memory file a buffer lies in."""
        return self.outputs if self.buffers[name].writable else self.inputs

    def offset(self, set_index: int, name: str) -> int:
        """Return where a copy begins in its memory file, in bytes. Raises `HarnessError` for a set out of range."""
        self._check(set_index)
        segment = self.segment(name)
        return set_index * segment.stride + segment.offsets[name]

    def view(self, set_index: int, name: str) -> Array:
        """Return a writable view of one copy. Raises `HarnessError` for a set out of range."""
        self._check(set_index)
        return self._views[name][set_index]

    def views(self, name: str) -> Array:
        """Return a writable view of all copies, of shape (sets, *shape); each copy is contiguous, all are not."""
        return self._views[name]

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of the tensors that were written out of bounds in any set."""
        return tuple(sorted(self.inputs.broken(self.sets) | self.outputs.broken(self.sets)))

    def layout(self) -> dict[str, Any]:
        """Return what a process needs to map the arena, as JSON types; segment 0 holds the inputs, 1 the outputs.

        Each buffer is `[name, shape, dtype, role, segment, offset of its first copy]`.
        """
        return {
            "sets": self.sets,
            "strides": [self.inputs.stride, self.outputs.stride],
            "buffers": [
                [b.name, list(b.shape), b.dtype, b.role.value, int(b.writable), self.offset(0, b.name)]
                for b in self.buffers.values()
            ],
        }

    def descriptors(self) -> tuple[int, int]:
        """Return the descriptors of inputs and outputs, to be sent along with the layout; they stay the arena's."""
        return self.inputs.fd, self.outputs.fd

    def close(self) -> None:
        """Give both memory files back. Views that are still held stay valid."""
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


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

"""Buffers that the judge owns and lends: anonymous memory shared by descriptor, gone with its last holder.

Inputs and outputs lie in two separate memory files. The one with the inputs is sealed after the judge has mapped it, so
nobody else can ever map it writable; the other is writable by all, and nothing in it is believed. Both are sealed
against resizing, since a shrunken file would kill the judge on its next access.
"""

import contextlib
import fcntl
import math
import mmap
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from evokernel.errors import HarnessError
from evokernel.task import DTYPES, Role, Signature

ALIGNMENT_BYTES = 64
GUARD_BYTES = 512
PAGE_BYTES = 4096
F_SEAL_FUTURE_WRITE = 0x10
RESIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

# numpy knows no bfloat16; its bits are shown as uint16.
VIEW_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}
# Quiet NaN of each format and the mask of the payload bits below its quiet bit.
NAN_BITS = {
    "float32": (0x7FC00000, 0x3FFFFF),
    "float64": (0x7FF8 << 48, (1 << 51) - 1),
    "float16": (0x7E00, 0x1FF),
    "bfloat16": (0x7FC0, 0x3F),
}

Array = np.ndarray[Any, np.dtype[Any]]


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
    """One memory file: `sets` copies of some buffers, each between guard bars of secret bytes."""

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
        self._canary = np.frombuffer(secrets.token_bytes(PAGE_BYTES), dtype=np.uint8)
        self._bytes = np.frombuffer(self.memory, dtype=np.uint8)
        for begin, stop, _ in self._gaps(sets):
            self._bytes[begin:stop] = np.resize(self._canary, stop - begin)

    def _gaps(self, sets: int) -> Iterable[tuple[int, int, str]]:
        for index in range(sets):
            end, owner = index * self.stride, ""
            for buffer in self.buffers:
                begin = index * self.stride + self.offsets[buffer.name]
                # The bar between two buffers is halved, so that the nearer one is named.
                middle = begin - GUARD_BYTES // 2 if owner else end
                yield end, middle, owner or buffer.name
                yield middle, begin, buffer.name
                end, owner = begin + buffer.size_bytes, buffer.name
            yield end, (index + 1) * self.stride, owner

    def broken(self, sets: int) -> set[str]:
        """Return the buffers beside whose copies a guard bar was changed."""
        return {
            name
            for begin, stop, name in self._gaps(sets)
            if not np.array_equal(self._bytes[begin:stop], np.resize(self._canary, stop - begin))
        }

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view of it goes."""
        del self._bytes
        os.close(self.fd)
        with contextlib.suppress(BufferError):  # somebody still holds a view
            self.memory.close()


class Arena:
    """`sets` copies of a workload's tensors in shared memory. A context manager; closing it twice is an error."""

    def __init__(self, buffers: Iterable[Buffer], *, sets: int) -> None:
        self.buffers = {buffer.name: buffer for buffer in buffers}
        if sets < 1 or not self.buffers:
            raise HarnessError(f"an arena needs at least one set and one buffer, not {sets} and {len(self.buffers)}")
        self.sets = sets
        self.inputs = Segment((b for b in self.buffers.values() if not b.writable), sets, sealed=True)
        self.outputs = Segment((b for b in self.buffers.values() if b.writable), sets, sealed=False)
        self._poison = {buffer.name: _poison_word(buffer.dtype) for buffer in self.buffers.values()}

    @classmethod
    def for_signature(cls, signature: Signature, sizes: Mapping[str, int], *, sets: int) -> "Arena":
        """Make the arena of one workload, with the shapes that `sizes` gives."""
        tensors = signature.tensors
        return cls((Buffer(t.name, t.shape_at(sizes), t.dtype, t.role) for t in tensors), sets=sets)

    def segment(self, name: str) -> Segment:
        """Return the memory file a buffer lies in."""
        return self.outputs if self.buffers[name].writable else self.inputs

    def offset(self, set_index: int, name: str) -> int:
        """Return where a copy begins in its memory file, in bytes. Raises `HarnessError` for a set out of range."""
        if not 0 <= set_index < self.sets:
            raise HarnessError(f"set {set_index} of an arena of {self.sets} sets")
        segment = self.segment(name)
        return set_index * segment.stride + segment.offsets[name]

    def view(self, set_index: int, name: str) -> Array:
        """Return a writable view of one copy; bfloat16 is shown as uint16."""
        return self._raw(set_index, name, VIEW_TYPES[self.buffers[name].dtype]).reshape(self.buffers[name].shape)

    def _raw(self, set_index: int, name: str, dtype: np.dtype[Any]) -> Array:
        buffer = self.buffers[name]
        start = self.offset(set_index, name)
        return np.frombuffer(self.segment(name).memory, dtype, math.prod(buffer.shape), start)

    def poison_outputs(self, set_index: int) -> None:
        """Fill the outputs (not the in/out tensors) with a secret NaN, or a secret number for integers."""
        for buffer in self.buffers.values():
            if buffer.role is Role.OUTPUT:
                word = self._poison[buffer.name]
                self._raw(set_index, buffer.name, word.dtype)[...] = word

    def unwritten(self, set_index: int, name: str) -> int:
        """Return how many elements still hold the poison."""
        word = self._poison[name]
        return int(np.count_nonzero(self._raw(set_index, name, word.dtype) == word))

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of the tensors that were written out of bounds in any set."""
        return tuple(sorted(self.inputs.broken(self.sets) | self.outputs.broken(self.sets)))

    def close(self) -> None:
        """Give both memory files back. Views that are still held stay valid."""
        self.inputs.close()
        self.outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _poison_word(dtype: str) -> np.generic:
    bits = 8 * DTYPES[dtype]
    if dtype in NAN_BITS:
        base, mask = NAN_BITS[dtype]
        word = base | (1 + secrets.randbelow(mask))  # never payload 0, which is the NaN that arithmetic makes
    else:
        word = (1 << (bits - 2)) | secrets.randbits(bits - 2)
    kinds: dict[int, type[np.generic]] = {16: np.uint16, 32: np.uint32, 64: np.uint64}
    return kinds[bits](word)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

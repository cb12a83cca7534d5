"""Layout of buffer copies in one piece of memory, with guard bars between them; the same on every device."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch

from evokernel.evaluate.numerics.arrays import Array, torch_dtype
from evokernel.task import DTYPES, Role


@dataclass(frozen=True, slots=True)
class Buffer:
    """One tensor of an arena: contiguous, row-major."""

    name: str
    shape: tuple[int, ...]
    """Concrete extents."""
    dtype: str
    """Its name in the task."""
    role: Role
    """Input, output or both."""

    @property
    def size_bytes(self) -> int:
        """The size of one copy."""
        return prod(self.shape) * DTYPES[self.dtype]

    @property
    def writable(self) -> bool:
        """Say whether a kernel may write it."""
        return self.role is not Role.INPUT


@dataclass(frozen=True, slots=True)
class Spacing:
    """Rules of a layout; all numbers are bytes."""

    alignment: int
    """Buffers begin at its multiples."""
    guard: int
    """Least bytes around each buffer."""
    unit: int
    """A set takes a multiple of it."""
    granularity: int
    """An allocation takes a multiple of it."""
    odd_units: bool = False
    """A set takes an odd number of units."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A guard bar: bytes of every set that must not change."""

    begin: int
    """Its first byte."""
    end: int
    """The byte behind its last."""
    owner: str
    """The buffer that a change is blamed on."""


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Layout of `sets` copies of some buffers in one allocation; all numbers are bytes."""

    offsets: Mapping[str, int]
    """Begin of each buffer's first copy, by name."""
    bars: tuple[Bar, ...]
    """Guard bars of one set."""
    stride: int
    """Distance between copies of a buffer."""
    size_bytes: int
    """Size of the allocation."""

    @classmethod
    def of(cls, buffers: Iterable[Buffer], *, sets: int, spacing: Spacing) -> "SegmentLayout":
        """Lay buffers out in their order, the same in every set."""
        offsets: dict[str, int] = {}
        bars: list[Bar] = []
        end, owner = 0, ""
        for buffer in buffers:
            begin = _round_up(end + spacing.guard, spacing.alignment)
            # The bar between two buffers is halved, so that the nearer one is named.
            middle = begin - spacing.guard // 2 if owner else end
            bars += [Bar(end, middle, owner), Bar(middle, begin, buffer.name)]
            offsets[buffer.name] = begin
            end, owner = begin + buffer.size_bytes, buffer.name
        units = -(-(end + spacing.guard) // spacing.unit) | spacing.odd_units
        stride = units * spacing.unit
        bars.append(Bar(end, stride, owner))
        filled = tuple(bar for bar in bars if bar.begin < bar.end)
        return cls(offsets, filled, stride, _round_up(stride * sets, spacing.granularity))


class Guards:
    """Secret bytes in the bars of one segment; `memory` is a tensor of its bytes, on any device."""

    def __init__(self, layout: SegmentLayout, memory: Array, *, sets: int) -> None:
        self._views = {
            bar: memory.as_strided((sets, bar.end - bar.begin), (layout.stride, 1), bar.begin) for bar in layout.bars
        }
        longest = max(bar.end - bar.begin for bar in layout.bars)
        secret = torch.frombuffer(bytearray(secrets.token_bytes(longest)), dtype=torch.uint8)
        self._canary = secret.to(memory.device)
        for view in self._views.values():
            view.copy_(self._expected(view))

    def broken(self) -> set[str]:
        """Return the buffers with a changed bar beside any of their copies. Waits for the device once."""
        changed = torch.stack([(view != self._expected(view)).any() for view in self._views.values()]).tolist()
        return {bar.owner for bar, broken in zip(self._views, changed, strict=True) if broken}

    def _expected(self, view: Array) -> Array:
        return self._canary[: view.shape[1]]


class Segment(Protocol):
    """One allocation that processes share by descriptor: `sets` copies of some buffers between guard bars."""

    layout: SegmentLayout
    guards: Guards
    memory: Array
    """All of its bytes."""
    fd: int
    """Its descriptor."""

    def close(self) -> None:
        """Free the memory."""


def all_copies(segment: Segment, buffer: Buffer, *, sets: int) -> Array:
    """Return the copies of all sets as one strided tensor, `(sets, *shape)`, valid as long as the segment's memory."""
    layout = segment.layout
    rows = segment.memory[: sets * layout.stride].view(sets, layout.stride)
    begin = layout.offsets[buffer.name]
    raw = rows[:, begin : begin + buffer.size_bytes]
    return raw.view(torch_dtype(buffer.dtype)).view(sets, *buffer.shape)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

"""Where copies of buffers lie in one piece of memory, and the guard bars between them; the same on every device."""

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
    """One tensor of an arena: contiguous, row-major, concrete shape."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role

    @property
    def size_bytes(self) -> int:
        """The size of one copy."""
        return prod(self.shape) * DTYPES[self.dtype]

    @property
    def writable(self) -> bool:
        """Whether a kernel may write it."""
        return self.role is not Role.INPUT


@dataclass(frozen=True, slots=True)
class Spacing:
    """How memory is laid out. All numbers are bytes.

    Buffers begin at multiples of `alignment` and have `guard` bytes around them; a set takes a multiple of `unit`, an
    odd one with `odd_units`, and the whole a multiple of `granularity`.
    """

    alignment: int
    guard: int
    unit: int
    granularity: int
    odd_units: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A guard bar: bytes `begin` to `end` of every set, which nobody may change; a change is put down to `owner`."""

    begin: int
    end: int
    owner: str


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Where `sets` copies of some buffers and the bars around them lie in one allocation. All numbers are bytes.

    `offsets` is where the first copy of each buffer begins; the next copy follows `stride` later.
    """

    offsets: Mapping[str, int]
    bars: tuple[Bar, ...]
    stride: int
    size_bytes: int

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
        """Return the buffers beside whose copies a bar was changed, in any set. Waits for the device once."""
        changed = torch.stack([(view != self._expected(view)).any() for view in self._views.values()]).tolist()
        return {bar.owner for bar, broken in zip(self._views, changed, strict=True) if broken}

    def _expected(self, view: Array) -> Array:
        return self._canary[: view.shape[1]]


class Segment(Protocol):
    """One allocation that processes share by descriptor: `sets` copies of some buffers between guard bars."""

    layout: SegmentLayout
    guards: Guards
    memory: Array
    fd: int

    def close(self) -> None:
        """Give the memory back."""


def all_copies(segment: Segment, buffer: Buffer, *, sets: int) -> Array:
    """Return the copies of all sets as one strided tensor, `(sets, *shape)`; it dies with the segment's memory."""
    layout = segment.layout
    rows = segment.memory[: sets * layout.stride].view(sets, layout.stride)
    begin = layout.offsets[buffer.name]
    raw = rows[:, begin : begin + buffer.size_bytes]
    return raw.view(torch_dtype(buffer.dtype)).view(sets, *buffer.shape)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

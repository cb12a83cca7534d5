"""Layout of buffer copies in one piece of memory, with guard bars between them; the same on every device."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import Array, torch_dtype
from evokernel.evaluate.numerics.canary import padding_bytes, repeated
from evokernel.source.strides import gaps, storage_size
from evokernel.task import DTYPES, Role

_COMPARED_BYTES = 64 << 20
_TRIPLES = 171  # of the pattern in bars, a page of 4 KiB before it repeats


@dataclass(frozen=True, slots=True)
class Buffer:
    """One tensor of an arena."""

    name: str
    shape: tuple[int, ...]
    """Concrete extents."""
    dtype: str
    """Its name in the task."""
    role: Role
    """Input, output or both."""
    strides: tuple[int, ...] | None = None
    """Steps along its dimensions, in elements; None for row-major."""

    @property
    def size_bytes(self) -> int:
        """The size of one copy, gaps between its elements included."""
        elements = math.prod(self.shape) if self.strides is None else storage_size(self.shape, self.strides)
        return elements * DTYPES[self.dtype]

    def padding(self, begin: int) -> Iterator["Bar"]:
        """Yield the gaps between its elements, in bytes, where its first copy begins at a byte."""
        size = DTYPES[self.dtype]
        for gap in gaps(self.shape, self.strides or ()) if self.strides else ():
            start = begin + gap.begin * size
            repeats = tuple((count, step * size) for count, step in gap.repeats)
            yield Bar(start, start + gap.size * size, self.name, repeats)

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
    end_alignment: int = 1
    """Buffers, rounded up to `alignment`, end at its multiples."""

    def begin(self, end: int, size: int) -> int:
        """Return where a buffer of `size` bytes begins, the first one behind `end`."""
        room = _round_up(size, self.alignment)
        return _round_up(end + self.guard + room, max(self.alignment, self.end_alignment)) - room


@dataclass(frozen=True, slots=True)
class Bar:
    """A guard bar: bytes of every set that must not change, around a buffer or between its elements."""

    begin: int
    """Its first byte."""
    end: int
    """The byte behind its last."""
    owner: str
    """The buffer that a change is blamed on."""
    repeats: tuple[tuple[int, int], ...] = ()
    """Count and distance in bytes of its repetitions within a set; none for a bar around a buffer."""


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Layout of `sets` copies of some buffers in one allocation; all numbers are bytes."""

    offsets: Mapping[str, int]
    """Begin of each buffer's first copy, by name."""
    bars: tuple[Bar, ...]
    """Guard bars of one set."""
    tail: Bar
    """The rest of the allocation behind the last set: a bar, too."""
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
            begin = spacing.begin(end, buffer.size_bytes)
            # The bar between two buffers is halved, so that the nearer one is named.
            middle = begin - spacing.guard // 2 if owner else end
            bars += [Bar(end, middle, owner), Bar(middle, begin, buffer.name)]
            offsets[buffer.name] = begin
            bars += buffer.padding(begin)
            end, owner = begin + buffer.size_bytes, buffer.name
        units = -(-(end + spacing.guard) // spacing.unit) | spacing.odd_units
        stride = units * spacing.unit
        bars.append(Bar(end, stride, owner))
        filled = tuple(bar for bar in bars if bar.begin < bar.end)
        size_bytes = _round_up(stride * sets, spacing.granularity)
        return cls(offsets, filled, Bar(stride * sets, size_bytes, owner), stride, size_bytes)


class Guards:
    """Secret bytes in the bars and the tail of one segment; `memory` is a tensor of its bytes, on any device.

    They are `padding_bytes`: a kernel that reads a row past its buffer, and gives it no weight, has NaN in its result.
    """

    def __init__(self, layout: SegmentLayout, memory: Array, *, sets: int) -> None:
        views = {bar: _bytes_of(bar, layout, memory, sets=sets) for bar in layout.bars}
        views[layout.tail] = memory[layout.tail.begin : layout.tail.end].view(1, -1)
        longest = max(view.shape[1] for bar, view in views.items() if not bar.repeats)
        self._padding = padding_bytes(np.random.default_rng(), times=_TRIPLES).to(memory.device)
        self._pattern = repeated(self._padding, longest)
        for bar, view in views.items():
            view.copy_(self._expected(bar, view))
        self._pieces = [(bar, piece) for bar, view in views.items() for piece in view.split(_sets_at_once(view))]
        # of padding it may take as much memory as the tensors: that is made when it is compared
        self._plain = [
            None if bar.repeats else self._expected(bar, piece).expand_as(piece) for bar, piece in self._pieces
        ]

    def broken(self) -> set[str]:
        """Return the buffers with a changed bar beside any of their copies. Waits for the device once."""
        if self._pattern.device.type == "cpu":
            known = zip(self._pieces, self._plain, strict=True)
            return {bar.owner for (bar, piece), plain in known if not self._intact(bar, piece, plain)}
        changed = torch.stack([(piece != self._expected(bar, piece)).any() for bar, piece in self._pieces]).tolist()
        return {bar.owner for (bar, _), broken in zip(self._pieces, changed, strict=True) if broken}

    def _intact(self, bar: Bar, piece: Array, plain: Array | None) -> bool:
        return bool(torch.equal(piece, self._expected(bar, piece).expand_as(piece) if plain is None else plain))

    def _expected(self, bar: Bar, view: Array) -> Array:
        if bar.repeats:
            return repeated(self._padding, math.prod(view.shape[1:])).view(view.shape[1:])
        return self._pattern[: view.shape[1]]


def _sets_at_once(view: Array) -> int:
    """Return the sets that are compared at once: padding may be as large as the tensors."""
    return max(1, _COMPARED_BYTES // max(int(view[0].numel()), 1))


def _bytes_of(bar: Bar, layout: SegmentLayout, memory: Array, *, sets: int) -> Array:
    """Return the bytes of a bar in all sets, of shape (sets, *repeats, bytes)."""
    counts, steps = ([each[side] for each in bar.repeats] for side in (0, 1))
    return memory.as_strided((sets, *counts, bar.end - bar.begin), (layout.stride, *steps, 1), bar.begin)


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
    values = raw.view(torch_dtype(buffer.dtype))
    if buffer.strides is None:
        return values.view(sets, *buffer.shape)
    return values.as_strided((sets, *buffer.shape), (values.stride(0), *buffer.strides))


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step

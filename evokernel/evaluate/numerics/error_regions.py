"""Regions of wrong elements in an output, described for its author: tails, blocks, tiles, growth."""

import math
from dataclasses import dataclass

import torch

from evokernel.evaluate.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """Region of the wrong elements of an output."""

    text: str
    """Words that end in "is" or "are"."""
    share: float
    """Share of elements that are wrong, 0 to 1."""
    spread: bool
    """The wrong elements lie all over the output."""


def describe(wrong: Array, *, hidden: bool, error: Array | None = None) -> ErrorPattern:
    """Describe a mask of wrong elements: tails, blocks, every second row, tiles, growth.

    Axes before the last count as rows. For a hidden shape the text has no extent, position or exact share.
    """
    mask = wrong.reshape(-1, wrong.shape[-1]) if wrong.ndim > 1 else wrong.reshape(1, -1)
    rows, columns = mask.any(dim=1).cpu(), mask.any(dim=0).cpu()
    count, size = int(mask.sum()), mask.numel()
    share = count / size
    growth = " (more and more with growing index)" if error is not None and _grows(error.reshape(mask.shape)) else ""
    if count in (0, size):
        return ErrorPattern(f"{'every' if count else 'no'} element{growth} is", share, count > 0)
    if count == 1:
        place = "" if hidden else f" (row {_first(rows)}, column {_first(columns)})"
        return ErrorPattern(f"a single element{place} is", share, False)
    percent = _percent(share, hidden=hidden)
    box = int(rows.sum()) * int(columns.sum())  # the crossings of all rows and columns that have a wrong element
    if 2 * count >= box and box < size:
        parts = [_along(columns, "column" if mask.shape[0] > 1 else "element", hidden), _along(rows, "row", hidden)]
        return ErrorPattern(
            f"{percent} of the elements ({' in '.join(part for part in parts if part)}) are", share, False
        )
    tile = next((t for t in (64, 32, 16, 8, 4) if _in_tiles(mask, t)), None)
    if tile is not None:
        return ErrorPattern(f"{percent} of the elements (whole tiles of {tile}x{tile}) are", share, False)
    return ErrorPattern(f"{percent} of the elements{growth or ' (scattered over the output)'} are", share, share > 0.05)


def _percent(share: float, *, hidden: bool) -> str:
    """Return a share of less than 1 in words, for a hidden shape to one tenth."""
    least = 0.9 if hidden else 0.99
    if share > least:
        return f"more than {100 * least:.0f} %"
    if not hidden:
        return f"{100 * share:.2g} %"
    return "under 1 %" if share < 0.01 else f"at most {10 * math.ceil(10 * share)} %"


def _along(bad: Array, noun: str, hidden: bool) -> str:
    """Describe one axis; empty where the whole axis is wrong."""
    count, size = int(bad.sum()), bad.numel()
    first, last = _first(bad), size - 1 - _first(bad.flip(0))
    if count == size:
        return ""
    for period in range(2, 65):
        if 2 * period <= size and torch.equal(bad[period:], bad[:-period]):
            return f"every second {noun}" if period == 2 else f"{int(bad[:period].sum())} of every {period} {noun}s"
    wording = (f"some {noun}s", f"{count} of {size} {noun}s")
    if last - first + 1 == count and last == size - 1:
        wording = (f"the last {noun}s: a tail", f"the last {count} of {size} {noun}s: a tail")
    elif count == 1:
        wording = (f"a single {noun}", f"a single {noun}, number {first}")
    elif last - first + 1 == count:
        wording = (f"one block of {noun}s", f"one block of {noun}s, {first} to {last}")
    return wording[0] if hidden else wording[1]


def _first(bad: Array) -> int:
    return int(bad.int().argmax())


def _in_tiles(mask: Array, tile: int) -> bool:
    rows, columns = mask.shape[0] // tile * tile, mask.shape[1] // tile * tile
    if rows * columns == 0 or rows * columns == tile * tile:
        return False
    blocks = mask[:rows, :columns].reshape(rows // tile, tile, columns // tile, tile).sum(dim=(1, 3)).cpu()
    empty, full = blocks == 0, blocks > 0.9 * tile * tile
    return bool((empty | full).all() and full.any() and empty.any())


def _grows(error: Array) -> bool:
    """Say whether the mean error rises steadily along the columns, as in a running sum."""
    if error.shape[1] < 32:
        return False
    means = torch.stack([part.mean() for part in error.tensor_split(8, dim=1)]).cpu()
    return bool((means.diff() > 0).sum() >= 6 and means[-1] > 3 * means[0])

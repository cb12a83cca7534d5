"""Truth values for checks: masks of several densities, full, empty, in runs, and with one odd element."""

import torch

from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.patchwork import InputSource, few_of, kinds_of, pieces_of

_KINDS, _RUN = 9, 5
_WHOLE = 8
"""One patched mask in so many is full altogether, and one is empty."""


def draw_mask(distribution: str, count: int, row: int, source: InputSource) -> Array:
    """Return truth values, flat, one at least true in each row: a row without any may have no answer.

    Half of them are true in normal and integers01, most in offset, a part that differs from row to row in wide, and one
    a row and 1/256 more in needles.
    """
    width, rows = row, -(-count // row)
    if distribution == "wide":
        share = torch.pow(float(width), -source.uniform(0.0, 1.0, rows))[:, None]
    else:
        share = {"offset": 0.875, "needles": 1 / 256}.get(distribution, 0.5)
    made = source.uniform(0.0, 1.0, rows * width).view(rows, width) < share
    return _with_one_true(made, source).reshape(-1)[:count]


def patch_mask(count: int, row: int, source: InputSource, *, filled: bool, few: bool) -> Array:
    """Return truth values, flat, whose rows, or pieces of few rows, are of different kinds.

    Kinds: half true, full, empty, one true, one false, a true run, a false run, true up to a place, of any density.

    Args:
        row: the length of a row.
        filled: one is true at least in each row.
        few: all are half true, but for few rows with a run.
    """
    width, pieces = pieces_of(count, row)
    numbers = source.uniform(0.0, 1.0, pieces * width).view(pieces, width)
    column = torch.arange(width, device=numbers.device).expand_as(numbers)
    kind = few_of(_RUN, pieces, source) if few else kinds_of(_KINDS, pieces, source)
    place = source.integers(0, width, pieces)[:, None]
    run = (column >= place) & (column < place + torch.pow(float(width), source.uniform(0.0, 1.0, pieces))[:, None])
    made = numbers < 0.5
    others = (
        column >= 0, column < 0, column == place, column != place, run, ~run, column <= place,
        numbers < source.uniform(0.0, 1.0, pieces)[:, None],
    )  # fmt: skip
    for number, values in enumerate(others, start=1):
        made = torch.where(kind == number, values, made)
    whole = source.integers(0, _WHOLE, 1)
    made = (made | (whole == 0)) & (whole != 1)
    flat = made.reshape(-1)[:count]
    return _with_one_true(_in_rows(flat, row), source).reshape(-1)[:count] if filled else flat


def _in_rows(flat: Array, row: int) -> Array:
    missing = -flat.numel() % row
    return torch.cat([flat, flat.new_zeros(missing)]).view(-1, row)


def _with_one_true(rows: Array, source: InputSource) -> Array:
    place = source.integers(0, rows.shape[1], rows.shape[0])[:, None]
    return rows.scatter(1, place, torch.ones_like(place, dtype=torch.bool))

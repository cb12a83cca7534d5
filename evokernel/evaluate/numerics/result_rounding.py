"""Results in 16 bits that are cut off where the next number should be the nearest one: all of them err to one side.

Each such error is within the tolerance, which allows for several roundings. Rounding to nearest gives about as many
larger numbers as smaller ones, whatever was rounded before it; a kernel's own bias is seldom half a place.
"""

import secrets

import torch

from evokernel.evaluate.numerics.arrays import SHORT, Array, bits
from evokernel.evaluate.numerics.expected import ExpectedOutput

_LEAST, _DIFFERENT = 256, 64
"""Results that are no number of 16 bits, and different ones among them: fewer may lie on one side by chance."""
_MOST = 1 << 20
"""Results that are looked at, at about equal distances from a first one that is drawn: in fp64 all take much memory."""
_ROUNDED_UP, _EQUAL, _SPREAD = 1 / 64, 3 / 4, 1 / 4
"""Where they are cut off: most of them that are larger than due, since a kernel's own numbers are off a little, too;
the least part that equals the next smaller numbers; and of their nearest numbers the least part on each side."""


def is_cut_off(output: ExpectedOutput, actual: Array) -> bool:
    """Say whether the results of a right output were cut off, towards 0 or downwards, and those of torch were not."""
    if actual.dtype not in SHORT or actual.numel() < _LEAST:
        return False
    step = -(-actual.numel() // _MOST)
    some = slice(secrets.randbelow(step), None, step)
    high, results, native = (each.reshape(-1)[some] for each in (output.high, actual, output.native))
    nearest = high.to(actual.dtype)
    there = (nearest.double() != high) & nearest.isfinite() & results.isfinite()
    there &= high.abs() >= torch.finfo(actual.dtype).tiny  # smaller ones may be flushed to 0
    high, nearest, results, native = (each[there] for each in (high, nearest, results, native))
    if high.numel() < _LEAST:
        return False
    return any(
        _lies_below(results, high, nearest, side) and not _lies_below(native, high, nearest, side)
        for side in (high.sign(), torch.ones_like(high))
    )


def _lies_below(results: Array, high: Array, nearest: Array, side: Array) -> bool:
    """Say whether results are the next smaller numbers, counted along `side`, where many of the nearest ones are not.

    Few results, and results that are alike, may have all their nearest numbers below.
    """
    beyond = (nearest.double() - high) * side > 0
    lower = (bits(nearest) - (beyond * side * high.sign()).to(torch.int16)).view(nearest.dtype)
    above, equal = (results.double() - high) * side > 0, results == lower
    shares = torch.stack([each.double().mean() for each in (beyond, above, equal)]).tolist()
    cut_off = _SPREAD <= shares[0] <= 1 - _SPREAD and shares[1] <= _ROUNDED_UP and shares[2] >= _EQUAL
    return cut_off and int(high.unique().numel()) >= _DIFFERENT

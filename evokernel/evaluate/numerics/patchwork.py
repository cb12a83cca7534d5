"""A distribution made of parts: no sample of a tensor, and no prefix of a row, tells what the rest of it holds.

Its values are those of the distributions that a task declares, put together in other ways.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from evokernel.evaluate.numerics.arrays import Array

_FEW_PIECES, _NEEDLES = 4, 256
_PIECES = 8
_KINDS = 10
_MANY_PIECES, _LEAST_ODD = 32, 8
"""From so many pieces on few may be out of the ordinary, on the average at least this many."""
_DEEP, _NARROW = 300.0, 0.01
"""Largest size of some numbers that fill a row far below zero, and what tells them apart as a part of that: their
roundings stay small beside it.
"""
_APART = 0.05
"""The same of the others, which are as large as any may be: a maximum may begin at -1000."""
_FIRST = 3
"""One run in so many begins with its row: a look at the first numbers takes it for a row of equal ones."""
_FAR = 9
"""The kind of these rows."""
_SPARSE = "needles"  # a task that declares it expects large numbers in few places only

_NUMBER_KINDS = {"equal": 1, "ties": 2, "outlier": 3, "run": 4}
_INDEX_KINDS = {"equal": 1, "extremes": 2, "ordered": 3, "crowded": 4, "run": 5, "beats": 6}
_BEATS = range(3, 11)
"""In each eighth of a row in beats another number stands in one of so many places, as powers of two: those of one lane.
"""
_Draw = Callable[[str, int], Array]


@dataclass(frozen=True, slots=True)
class InputSource:
    """Random numbers in bulk, on one device."""

    generator: torch.Generator
    real: torch.dtype
    """The dtype they are drawn in."""

    def normal(self, count: int) -> Array:
        """Return numbers of N(0,1)."""
        return torch.randn(count, generator=self.generator, device=self.generator.device, dtype=self.real)

    def uniform(self, low: float, high: float, count: int) -> Array:
        """Return numbers between two."""
        numbers = torch.rand(count, generator=self.generator, device=self.generator.device, dtype=self.real)
        return numbers.mul_(high - low).add_(low)

    def integers(self, low: int, high: int, count: int, *, dtype: torch.dtype = torch.int64) -> Array:
        """Return integers from `low` to `high - 1`."""
        return torch.randint(low, high, (count,), generator=self.generator, device=self.generator.device, dtype=dtype)

    def magnitudes(self, low: float, high: float, count: int) -> Array:
        """Return numbers with a sign whose magnitudes are log-uniform between two powers of ten."""
        exponents = self.uniform(low, high, count)
        signs = self.integers(0, 2, count, dtype=self.real).mul_(2).sub_(1)
        return torch.pow(10.0, exponents).mul_(signs)

    def needles(self, count: int, row: int, make: Callable[[int], Array]) -> Array:
        """Return zeros with one value of `make` in each row of `row` elements, and up to 1/256 more anywhere.

        In half of all draws of few rows these are fewer, a log-uniform share: a kernel that looks at thousands of
        numbers, and takes all others for the same where these are, would see some of the 1/256.
        """
        starts = torch.arange(0, count, row, device=self.generator.device)
        one_each = (starts + self.integers(0, row, starts.numel())).clamp_(max=count - 1)
        more = count // _NEEDLES
        if count < _FEW_PIECES * row and more and self.integers(0, 2, 1):
            more = int(more ** float(self.uniform(0.0, 1.0, 1)))
        places = torch.cat([one_each, self.integers(0, count, more)])
        found = make(places.numel())
        values = torch.zeros(count, dtype=found.dtype, device=found.device)
        values[places] = found
        return values


def patch_numbers(
    count: int, row: int, source: InputSource, *, draw: _Draw, homes: tuple[str, str], few: bool, far: bool
) -> Array:
    """Return numbers, flat; each row, or each piece of a tensor of few rows, is of a kind of its own.

    Kinds: ordinary, all equal, of a small variance, small, of three values, with one outlier, with a run of equal
    values, with a rest from the second distribution, from the second distribution altogether, far from zero.

    Args:
        row: the length of a row.
        source: random numbers; `draw` takes from it, too.
        draw: makes so many ordinary numbers of a distribution.
        homes: the usual distribution, and the one of what is unusual.
        few: all are ordinary but for few with one outlier.
        far: rows far from zero hold numbers as large as those of wide.
    """
    width, pieces = pieces_of(count, row)
    usual, other = (draw(home, pieces * width).view(pieces, width) for home in homes)
    odd = few_of(_NUMBER_KINDS["outlier"], pieces, source) if few else kinds_of(_KINDS, pieces, source)
    kind = odd[:, 0]
    for number in range(1, _KINDS):  # only rows of a kind are copied: tensors may fill half of a GPU
        rows = (kind == number).nonzero()[:, 0]
        if number == _FAR and far:
            loud = draw("wide", len(rows) * width).view(-1, width).abs().amax(dim=1, keepdim=True)
            usual[rows] = _far_from_zero(usual[rows], loud, source).to(usual.dtype)
        elif number != _FAR:
            usual[rows] = _changed(number, usual[rows], other[rows], source=source, homes=homes).to(usual.dtype)
    return usual.reshape(-1)[:count]


def _changed(kind: int, usual: Array, other: Array, *, source: InputSource, homes: tuple[str, str]) -> Array:
    """Return rows made into those of a kind."""
    rows, width = usual.shape
    column = torch.arange(width, device=usual.device)
    place = source.integers(0, width, rows)[:, None]
    one, tied = (_one_value(values, home) for values, home in zip((usual, other), homes, strict=True))
    loud = other.gather(1, other.abs().argmax(dim=1, keepdim=True))
    small = usual.is_floating_point() and homes[0] == "normal"
    match kind:
        case 1:
            # a sum of equal numbers errs to one side: small, they leave honest kernels alike where that is magnified
            return (one * 0.001 if small else one).expand_as(usual)
        case 2:
            return usual.gather(1, (column % 3).clamp(max=width - 1).expand_as(usual))
        case 3:
            return torch.where(column == place, loud, usual)
        case 4:
            # half of a row stays: nothing tells how a row of one large number is normalised, for its roundings decide
            length = torch.pow(max(width / 2, 1.0), source.uniform(0.0, 1.0, rows))[:, None]
            first = source.integers(0, _FIRST, rows)[:, None] == 0
            place, value = torch.where(first, 0, place), torch.where(first, one, tied)  # of needles most would be 0
            return torch.where((column >= place) & (column < place + length), value, usual)
        case 5:
            return torch.where(column >= place, other, usual)
        case 6:
            return other
    if not small:
        return usual
    if kind == 7:
        return usual * torch.pow(10.0, source.uniform(-5.0, -1.0, rows))[:, None]
    return one * (1 + usual * torch.pow(10.0, source.uniform(-2.0, -1.0, rows))[:, None])


def _far_from_zero(usual: Array, loud: Array, source: InputSource) -> Array:
    """Return rows about minus `loud`: a quarter `_DEEP` at most, half altogether; and a quarter about `loud` itself."""
    kind = source.integers(0, 4, len(usual))[:, None]
    below = -loud.clamp(max=_DEEP) * (1 + _NARROW * usual)
    whole = loud * (1 - _APART * usual.abs().clamp(max=4.0))
    return torch.where(kind == 0, below, torch.where(kind == 1, whole, -whole))


def numbers_like(word: str, usual: Array, other: Array, source: InputSource, *, homes: tuple[str, str]) -> Array:
    """Return rows made into those that a word of a hidden check names; `usual` and `other` as `homes` draws them."""
    return _changed(_NUMBER_KINDS[word], usual, other, source=source, homes=homes)


def patch_indices(count: int, row: int, source: InputSource, *, bound: int, few: bool) -> Array:
    """Return integers from 0 to `bound` - 1, flat: uniform, equal, extreme, in order, crowded, with a run or in beats.

    With `few` all are uniform but for few rows with a run, or of few rows all are equal but for one integer.
    """
    if few and count < _FEW_PIECES * row:
        one, other = source.integers(0, bound, 2)
        place = source.integers(0, count, 1)
        return torch.where(torch.arange(count, device=place.device) == place, other, one)
    _, pieces = pieces_of(count, row)
    kind = few_of(_INDEX_KINDS["run"], pieces, source) if few else kinds_of(len(_INDEX_KINDS) + 1, pieces, source)
    return indices_of(kind, count, row, source, bound=bound)


def indices_in_beats(count: int, source: InputSource, *, bound: int) -> Array:
    """Return one integer from 0 to `bound` - 1, and at regular places of the whole tensor another.

    A kernel may count what is unlike the first number of 32, in bytes that overflow after a dozen of these far from
    each other: more than a part of a row has.
    """
    one, other = source.integers(0, bound, 2)
    place = torch.arange(count, device=one.device)
    return torch.where(place % _beat(place, count) == 0, other, one)


def index_kind(word: str) -> int:
    """Return the kind of the indices that a word of a hidden check names."""
    return _INDEX_KINDS[word]


def indices_of(kind: Array, count: int, row: int, source: InputSource, *, bound: int) -> Array:
    """Return indices as `patch_indices` does, of a given kind for each piece, of shape (pieces, 1)."""
    width, pieces = pieces_of(count, row)
    column = torch.arange(width, device=kind.device)
    usual = source.integers(0, bound, pieces * width).view(pieces, width)
    place, one = (source.integers(0, high, pieces)[:, None] for high in (width, bound))
    run = (column >= place) & (column < place + torch.pow(float(width), source.uniform(0.0, 1.0, pieces))[:, None])
    beat = _beat(column, width)
    index = column + width * torch.arange(pieces, device=column.device)[:, None]
    other = source.integers(0, bound, pieces)[:, None]
    for where, values in (
        (kind == 1, one.expand_as(usual)),
        (kind == 2, (usual % 2) * (bound - 1)),
        (kind == 3, (one + column) % bound),
        (kind == 4, (one + usual % 7) % bound),
        ((kind == 5) & run, one.expand_as(usual)),
        (kind == 6, torch.where(index % beat == 0, other, one)),
    ):
        usual = torch.where(where, values, usual)
    return usual.reshape(-1)[:count]


def _beat(place: Array, width: int) -> Array:
    """Return the distance between two places of a beat, which doubles with each eighth of the width."""
    return 1 << (_BEATS.start + place * len(_BEATS) // width)


def pieces_of(count: int, row: int) -> tuple[int, int]:
    """Return the length and the number of pieces: rows, or parts of them where there are few."""
    width = row if count >= _FEW_PIECES * row else max(1, -(-count // _PIECES))
    return width, -(-count // width)


def kinds_of(count: int, pieces: int, source: InputSource) -> Array:
    """Return a kind for each piece; the first, which a kernel may take for all, is ordinary more often than others.

    In half of all draws of many pieces few are out of the ordinary, a log-uniform share: a kernel that looks at some
    dozens of rows, and takes a safe way where one of them is odd, would go the safe way wherever most are. A few pieces
    are of as many kinds as they can be.
    """
    if pieces <= _PIECES:
        order = torch.randperm(count, generator=source.generator, device=source.generator.device)
        kind = order.repeat(-(-pieces // count))[:pieces]
    else:
        kind = source.integers(0, count, pieces)
    if pieces >= _MANY_PIECES and source.integers(0, 2, 1):
        share = torch.pow(pieces / _LEAST_ODD, -source.uniform(0.0, 1.0, 1))
        kind *= source.uniform(0.0, 1.0, pieces) < share
    kind[:1] *= source.integers(0, 2, 1)
    return kind[:, None]


def few_of(kind: int, pieces: int, source: InputSource) -> Array:
    """Return 0 for each piece but for few, which are of a kind that shows at one place within them only.

    A kernel that looks at some numbers of each row, and takes a safe way where one is odd, sees nothing there.
    """
    kinds = torch.zeros(pieces, dtype=torch.int64, device=source.generator.device)
    kinds[source.integers(0, pieces, min(_LEAST_ODD, pieces))] = kind
    return kinds[:, None]


def _one_value(values: Array, home: str) -> Array:
    """Return one value for each piece, which may fill all of it."""
    return torch.zeros_like(values[:, :1]) if home == _SPARSE else values[:, :1]

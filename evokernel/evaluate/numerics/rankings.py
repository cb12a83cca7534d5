"""Positions in a ranking: of numbers that nearly tie any may come first.

The operations of a reference that rank are watched: the numbers that they rank, and how far these move where inexact
results move by some roundings. A position is right where its number is that of the expected one, within these moves.
Of equal numbers any may come first where torch leaves that open, as it does for `topk`, or where they come of an
operation that may round: whether shares of a softmax tie exactly is luck. Of inputs themselves, and of what is selected
from them, the first is due to `argmax` and to a stable sort. Ranks, which are the inverse of all positions, are right
where those are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.evaluate.numerics.arrays import SHORT, Array
from evokernel.evaluate.numerics.dispatch import arguments_of

_SLACK = 2.0
"""A few runs tell less than the largest move."""
_aten = torch.ops.aten
_FIRST_DUE = (_aten.argmax, _aten.argmin, _aten.max, _aten.min)
_RANKING = (_aten.topk, _aten.sort, _aten.kthvalue, _aten.median, *_FIRST_DUE)
_CHOOSE = {
    *("abs", "neg", "relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "max", "min", "amax", "amin"),
    *("round", "floor", "ceil", "trunc", "sign", "cummax", "cummin", "sort", "topk", "kthvalue", "median"),
    *("where", "masked_fill", "triu", "tril", "constant_pad_nd", "fill", "scatter", "index_put", "embedding"),
    *("gather", "index", "index_select", "masked_select", "flip", "roll", "cat", "stack", "repeat"),
    *("clone", "copy", "to_copy"),
}
"""Operations that round nothing: they choose among numbers, change signs, or make whole numbers."""


@dataclass(frozen=True, slots=True)
class RankedNumbers:
    """Numbers that one operation ranked, in one run of a reference."""

    numbers: Array
    """In fp64."""
    positions: Array
    """The operation's result, with as many axes as the numbers."""
    dim: int
    """The axis along which they were ranked."""
    ordered: bool
    """Of equal numbers the first is due."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Numbers of which an output holds positions."""

    numbers: Array
    """In one run of the reference, in fp64."""
    moves: Array
    """How far each differs in other runs, at most."""
    dim: int
    """The axis along which they are ranked."""
    shape: tuple[int, ...]
    """That of the positions, with as many axes as the numbers."""

    def allows(self, actual: Array, due: Array) -> Array:
        """Return, for each of some positions, whether it may stand in place of the one that is due."""
        mine, theirs = (each.reshape(self.shape).long() for each in (actual, due))
        inside = (mine >= 0) & (mine < self.numbers.shape[self.dim])
        mine = torch.where(inside, mine, theirs)
        gap = (self._at(self.numbers, mine) - self._at(self.numbers, theirs)).abs()
        fine = inside & (gap <= _SLACK * (self._at(self.moves, mine) + self._at(self.moves, theirs)))
        ordered = mine.sort(self.dim).values  # each number has one place
        fine &= ~(ordered.diff(dim=self.dim) == 0).any(self.dim, keepdim=True)
        return fine.reshape(actual.shape)

    def _at(self, numbers: Array, positions: Array) -> Array:
        return numbers.gather(self.dim, positions)


def ranked_numbers(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any, *, ordered: bool
) -> RankedNumbers | None:
    """Return what an operation of torch ranked; None where it ranks nothing in fp64."""
    if not ranks(func, args):
        return None
    positions = made[-1] if isinstance(made, tuple) else made
    numbers, dim = args[0], arguments_of(func, args, kwargs)["dim"]
    if dim is None:
        return RankedNumbers(numbers.reshape(-1).to(torch.float64, copy=True), positions.reshape(1), 0, ordered)
    dim %= max(numbers.dim(), 1)
    positions = positions if positions.dim() == numbers.dim() else positions.unsqueeze(dim)
    # a copy: what follows may work in place
    return RankedNumbers(numbers.to(torch.float64, copy=True), positions, dim, ordered)


def ranks(func: Any, args: tuple[Any, ...]) -> bool:
    """Say whether an operation ranks numbers in fp64, or cast to 16 bits."""
    if getattr(func, "overloadpacket", None) not in _RANKING or args[0].dtype not in (torch.float64, *SHORT):
        return False
    return any(each.name == "dim" for each in func._schema.arguments)  # the maximum of a whole tensor has no position


def leaves_order_open(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Say whether torch promises no order of equal numbers for an operation that ranks."""
    return func.overloadpacket not in _FIRST_DUE and not arguments_of(func, args, kwargs).get("stable")


def may_round(func: Any) -> bool:
    """Say whether the results of an operation are more than a choice of its arguments' numbers, or of whole ones."""
    return not func.is_view and getattr(func, "overloadpacket", func).__name__.strip("_") not in _CHOOSE


class RankingFinder:
    """Finds, over some runs of a reference, the ranking that one of its results holds the positions of."""

    def __init__(self) -> None:
        self._first: RankedNumbers | None = None
        self._moves: Array | None = None
        """None while no number has moved, since all are exact."""
        self._place = 0
        self._inverse = False
        """The result holds the rank of each number, not the positions."""

    def add(self, ranked: Sequence[RankedNumbers], result: Array) -> None:
        """Take what was ranked in one run, and its result."""
        if self._first is None:
            places = [number for number, each in enumerate(ranked) if _is_result(each, result)]
            self._inverse = not places
            places = places or [number for number, each in enumerate(ranked) if _is_inverse(each, result)]
            self._place = places[-1] if places else len(ranked)
            self._first = ranked[places[-1]] if places else _NOTHING
        elif self._first is _NOTHING:
            return
        elif len(ranked) <= self._place or ranked[self._place].numbers.shape != self._first.numbers.shape:
            self._first = _NOTHING  # the reference ranks by its data
        else:
            moves = (ranked[self._place].numbers - self._first.numbers).abs_()
            if self._moves is not None:
                torch.maximum(self._moves, moves, out=self._moves)
            elif moves.any():
                self._moves = moves

    @property
    def found(self) -> Ranking | None:
        """The ranking; None where the result is not that of one, or has to be the very one that is due."""
        first = self._first
        if first is None or first is _NOTHING or (self._moves is None and first.ordered):
            return None
        numbers, moves = first.numbers, self._moves
        if moves is None:  # fp32 holds them all, in half of the memory
            numbers = numbers.float()
            moves = numbers.new_zeros(()).expand(numbers.shape)
        if self._inverse:  # two numbers may change ranks where they may change places in the order
            numbers, moves = (each.gather(first.dim, first.positions) for each in (numbers, moves))
        return Ranking(numbers, moves, first.dim, tuple(first.positions.shape))


_NOTHING = RankedNumbers(torch.zeros(1), torch.zeros(1), 0, ordered=False)


def _is_result(ranked: RankedNumbers, result: Array) -> bool:
    if ranked.positions.numel() != result.numel():
        return False
    return bool(torch.equal(ranked.positions.reshape(-1), result.reshape(-1).long()))


def _is_inverse(ranked: RankedNumbers, result: Array) -> bool:
    if ranked.positions.shape != ranked.numbers.shape or ranked.positions.numel() != result.numel():
        return False
    ranks = result.reshape(ranked.positions.shape).long()
    if not ((ranks >= 0) & (ranks < ranks.shape[ranked.dim])).all():
        return False
    ordered = torch.arange(ranks.shape[ranked.dim], device=ranks.device)
    return bool((ranks.gather(ranked.dim, ranked.positions).movedim(ranked.dim, -1) == ordered).all())

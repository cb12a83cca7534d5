"""Decisions of a reference: its comparisons, roundings and rankings of numbers, noted in one run and made in another.

What follows a decision jumps: where a number lies near a threshold, an honest kernel may give quite another result.
Of two runs under the same decisions the results differ by roundings only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.dispatch import EagerMode, arguments_of

Decision: TypeAlias = tuple[Array, ...]
"""What one operation decided: whole numbers, truth values, or numbers that jump."""

_JUMPS = {
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide"),
}
"""Operations whose results jump, whatever their type."""
_RESTS = {"remainder", "fmod", "frac"}
"""Operations that leave what a whole quotient leaves; that jumps."""
_SELECTS = {"threshold", "hardshrink"}
"""Operations that keep a number or replace it."""
_PICKS = {"sort", "topk", "kthvalue", "median", "nanmedian", "mode", "max", "min", "cummax", "cummin"}
"""Operations that give numbers of their first argument and, as a decision, the places of these along an axis."""


def decision_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> Decision | None:
    """Return what an operation of torch decided about floats; None where it decided nothing.

    Args:
        func: the operation.
        args: its arguments by place.
        kwargs: its arguments by name.
        made: its result.
    """
    if not any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in args):
        return None
    name, in_place = name_of(func), name_of(func, in_place=True).endswith("_")
    if name in _SELECTS | _RESTS:
        given = arguments_of(func, args, kwargs)
        if in_place:  # what it worked on is gone
            return None
        return (((given["self"] - made) / given.get("other", 1)).round() if name in _RESTS else made == given["self"],)
    if name in _JUMPS or kwargs.get("rounding_mode") is not None:
        return (made.clone(),)
    # others have whole numbers of their own, of no consequence: fused attention, factors of matrices, empty results
    if (name.startswith(("_", "new_")) and name != "_to_copy") or name.endswith("_like"):
        return None
    results = made if isinstance(made, tuple) and name in _PICKS else (made,)
    whole = [each for each in results if isinstance(each, torch.Tensor) and not each.is_floating_point()]
    return tuple(each.clone() for each in whole) or None


class DecisionLog(EagerMode):
    """Notes the decisions under it; with those of an earlier run, makes these in place of its own."""

    def __init__(self, earlier: Sequence[Decision] | None = None) -> None:
        super().__init__()
        self._earlier = earlier
        self.decisions: list[Decision] = []
        self.fits = True
        """The operations were those of the earlier run; what a reference does may depend on its data."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **dict(kwargs or {}))
        decision = decision_of(func, args, kwargs or {}, made)
        if decision is None:
            return made
        place = len(self.decisions)
        self.decisions.append(decision)
        if self._earlier is None:
            return made
        self.fits = self.fits and place < len(self._earlier) and _alike(decision, self._earlier[place])
        if self.fits:
            _decided(func, args, kwargs or {}, made, self._earlier[place])
        return made


def _decided(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any, decision: Decision) -> None:
    """Change the result of an operation to that under a decision; in place, for operations in place."""
    given, name = arguments_of(func, args, kwargs), name_of(func)
    if name in _SELECTS:
        made.copy_(torch.where(decision[0], given["self"], given.get("value", 0)))
    elif name in _RESTS:
        made.copy_(given["self"] - decision[0] * given.get("other", 1))
    elif isinstance(made, torch.Tensor):
        made.copy_(decision[0])
    else:
        for whole, due in zip((each for each in made if not each.is_floating_point()), decision, strict=True):
            whole.copy_(due)
        if name in _PICKS:
            (values, places), numbers = made, given["self"]
            dim = given["dim"] % max(numbers.dim(), 1)
            kept = places.dim() == numbers.dim()
            picked = numbers.gather(dim, places if kept else places.unsqueeze(dim))
            values.copy_(picked if kept else picked.squeeze(dim))


def same_decisions(one: Sequence[Decision], other: Sequence[Decision]) -> bool:
    """Say whether two runs decided alike."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(
        _alike(*pair) and all(bool((mine == theirs).all()) for mine, theirs in zip(*pair, strict=True))
        for pair in pairs
    )


def _alike(one: Decision, other: Decision) -> bool:
    kinds = [[(each.shape, each.is_floating_point()) for each in decision] for decision in (one, other)]
    return kinds[0] == kinds[1]


def name_of(func: Any, *, in_place: bool = False) -> str:
    """Return the name of an operation, without the sign of one in place unless that is asked for."""
    name = str(getattr(func, "overloadpacket", func).__name__)
    return name if in_place else name.rstrip("_")

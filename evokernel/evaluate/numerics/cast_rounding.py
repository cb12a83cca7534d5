"""Casts to 16 bits inside a reference: an honest kernel may round there, or elsewhere, or not at all.

A model casts for speed, `(x.bfloat16() @ w.bfloat16()).float()`, and each library rounds in other places on the way.
How far that moves a result is seen by leaving the casts out, and by turning the error of each number about.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from evokernel.evaluate.numerics.arrays import SHORT

_NAMED = {torch.Tensor.bfloat16: torch.bfloat16, torch.Tensor.half: torch.float16}
_SAME_BITS = torch.Tensor.view
"""With a dtype it takes bits for those of another number, which is no rounding."""

KEPT = -1
"""The turn in which each number is rounded as by its cast, and what follows is not."""


class CastFinder(TorchFunctionMode):  # type: ignore[misc]
    """Notes casts to 16 bits; with `skip` numbers get torch's default type instead, which is fp64 in an fp64 answer.

    With a `turn` above 0, a run's number, each then is off by as much as the cast makes it, `times` over, up or down by
    chance; with `KEPT` each is rounded as by the cast, and what follows is not. A few results may come out of a cast as
    they should by luck, and as far off as they may where errors have other signs.
    """

    def __init__(self, *, skip: bool = False, turn: int = 0, times: float = 1.0) -> None:
        super().__init__()
        self._skip, self._turn, self._times, self._casts = skip, turn, times, 0
        self.dtypes: set[torch.dtype] = set()
        """Types that it found."""

    @property
    def found(self) -> bool:
        """There was a cast."""
        return bool(self.dtypes)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        wanted = [value for value in (*args, *named.values()) if _is_dtype(value) and value in SHORT]
        short = _NAMED.get(func) or (wanted[0] if wanted and func is not _SAME_BITS else None)
        if short is None:
            return func(*args, **named)
        self.dtypes.add(short)
        if not self._skip:
            return func(*args, **named)
        if func in _NAMED:
            return self._turned(args[0].to(torch.get_default_dtype()), short)
        return self._turned(func(*map(_wide, args), **{name: _wide(value) for name, value in named.items()}), short)

    def _turned(self, made: Any, short: torch.dtype) -> Any:
        if not self._turn or not isinstance(made, torch.Tensor) or not made.is_floating_point():
            return made
        cast = made.to(short).to(made.dtype)
        if self._turn == KEPT:
            return cast
        self._casts += 1
        chance = torch.Generator(made.device).manual_seed(self._casts << 8 | self._turn)  # it only sizes tolerances
        up = torch.randint(0, 2, made.shape, generator=chance, device=made.device, dtype=made.dtype)
        return made + (cast - made).nan_to_num(0.0, 0.0, 0.0) * (self._times * (2 * up - 1))


def _is_dtype(value: Any) -> bool:
    return isinstance(value, torch.dtype)


def _wide(value: Any) -> Any:
    return torch.get_default_dtype() if _is_dtype(value) and value in SHORT else value

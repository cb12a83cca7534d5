"""Elements at an edge: what is rounded, compared or ranked after honest arithmetic may fall either way.

Every inexact result of the fp64 reference moves by some roundings, up or down (Monte Carlo arithmetic, Parker 1997).
What is exact stays: a comparison of two inputs has no edges, and neither have sums of small integers.

Directions follow a design of Plackett and Burman (Biometrika 33, 1946): over the runs each two of eleven operations in
a row move in all four ways. Where a quotient ties exactly, its divisor and itself must move apart to show both sides;
drawn at random, one tie of ten did so in no run of eight, and tensors of few bits have thousands of ties.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.dispatch import EagerMode
from evokernel.evaluate.numerics.rankings import RankedNumbers, ranked_numbers
from evokernel.evaluate.numerics.references import high_answer
from evokernel.task import Task, Workload

_DIRECTIONS = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
_RUNS = len(_DIRECTIONS) + 1


@dataclass(frozen=True, slots=True)
class MovedRun:
    """A run of a reference whose inexact results moved."""

    answer: tuple[Array, ...]
    """Its results."""
    ranked: tuple[RankedNumbers, ...]
    """What its operations ranked, in their order."""


def edge_answers(
    task: Task, workload: Workload, inputs: Mapping[str, Array], *, unit: float, dtype: torch.dtype = torch.float32
) -> Iterator[MovedRun]:
    """Yield runs of the reference whose results, where `dtype` does not hold them, move by a part `unit`.

    Where every result is exact there is at most one, and only if it ranks: numbers may tie there, too.
    """
    device = next(iter(inputs.values())).device
    for run in range(_RUNS):
        with _Moved(unit, run, torch.Generator(device), dtype) as moved:
            answer = high_answer(task, workload, inputs)
        if not moved.nothing or moved.ranked:
            yield MovedRun(answer, tuple(moved.ranked))
        if moved.nothing:
            return


class _Moved(EagerMode):
    """Moves the results that a dtype does not hold, to numbers that it holds."""

    def __init__(self, unit: float, run: int, chance: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self._unit, self._run, self._chance, self._dtype = unit, run, chance, dtype
        self._operations = 0
        self.nothing = True
        """Every result was exact."""
        self.ranked: list[RankedNumbers] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **dict(kwargs or {}))
        if (ranked := ranked_numbers(func, args, kwargs or {}, made)) is not None:
            self.ranked.append(ranked)
        if isinstance(made, tuple):
            return tuple(self._moved(each) for each in made)
        return self._moved(made)

    def _moved(self, made: Any) -> Any:
        if not isinstance(made, torch.Tensor) or made.dtype != torch.float64:
            return made
        inexact = made.to(self._dtype).double() != made
        self._operations += 1
        if inexact.any():
            self.nothing = False
            # elements differ in their directions, each the same in all runs; no secret: it only sizes the tolerance
            chance = self._chance.manual_seed(self._operations)
            step = self._unit * self._direction()
            moved = torch.randint(0, 2, made.shape, generator=chance, device=made.device, dtype=made.dtype)
            moved.mul_(2 * step).add_(1 - step).mul_(made)
            moved.copy_(moved.to(self._dtype))
            made.copy_(torch.where(inexact & made.isfinite(), moved, made))  # in place, for operations in place
        return made

    def _direction(self) -> int:
        return _DIRECTIONS[(self._run + self._operations) % len(_DIRECTIONS)] if self._run < len(_DIRECTIONS) else -1

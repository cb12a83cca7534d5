"""Sizes within the ranges of a task, whose ends may follow from other sizes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evokernel.source.expressions import evaluate
from evokernel.task import Workload, WorkloadSet


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes that a dimension may have beside those that are chosen already."""

    low: int
    high: int
    """End of the range that the task names."""
    most: int
    """The largest size of a search workload, if that is more and the task names a number as the end."""


def within_ranges(offered: WorkloadSet, shape: Workload) -> bool:
    """Say whether no dimension of a shape is larger than the task's own hidden workloads may have it."""
    return all(shape.sizes[name] <= evaluate(high, shape.sizes) for name, (_, high) in offered.probe.items())


def range_beside(offered: WorkloadSet, name: str, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the range of a dimension beside others, which may be as large as in the search.

    Then a lower end that follows from them may lie above the upper one, a number, and is both ends.
    """
    low, high = (evaluate(end, sizes) for end in offered.probe[name])
    return low, max(low, high)


def each_chosen(offered: WorkloadSet, choose: Callable[[str, SizeRange], int]) -> dict[str, int | float]:
    """Return a shape whose sizes `choose` gives, by the name of a dimension and its range beside those before it."""
    sizes = offered.fixed_sizes
    for name, ends in offered.probe.items():
        low, high = range_beside(offered, name, sizes)
        searched = 0 if any(isinstance(end, str) for end in ends) else max(w.sizes[name] for w in offered.search)
        sizes[name] = choose(name, SizeRange(low, high, max(high, searched)))
    return {**offered.search[0].dims, **sizes}


def fitted(offered: WorkloadSet, dims: Mapping[str, int | float]) -> dict[str, int | float]:
    """Return a shape in which each dimension lies in its range, whose ends may follow from those before it."""
    shape = dict(dims)
    for name in offered.probe:
        low, high = range_beside(offered, name, Workload("", shape).sizes)
        shape[name] = min(max(int(shape[name]), low), high)
    return shape


def distinct(shapes: Iterable[Mapping[str, int | float]]) -> tuple[dict[str, int | float], ...]:
    """Return each of some shapes once: in narrow ranges many are drawn again and again."""
    return tuple({str(dims): dict(dims) for dims in shapes}.values())


def odd_size(low: int, high: int, rng: np.random.Generator) -> int:
    """Return an odd size of a range, where it has one."""
    value = int(rng.integers(low, high + 1)) | 1
    return value if value <= high else max(value - 2, low)

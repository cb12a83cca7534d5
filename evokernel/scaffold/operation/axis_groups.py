"""Sets of axes of the inputs that may grow together, and the shapes when they do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd
from operator import itemgetter

Shapes = Mapping[str, tuple[int, ...]]
Axis = tuple[str, int]
_MOST_COMBINED = 9
"""Axes of one extent of which all sets are tried."""
_MOST_IN_PROPORTION = 4
"""Axes of several extents that are tried together."""


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Axes that grow together."""

    axes: tuple[Axis, ...]
    units: tuple[int, ...]
    """What each is a multiple of."""

    def count(self, shapes: Shapes) -> int:
        """Return how many units the axes have."""
        name, axis = self.axes[0]
        return shapes[name][axis] // self.units[0]

    def in_steps(self, units: int) -> "AxisGroup":
        """Return these axes growing by so many units."""
        return AxisGroup(self.axes, tuple(units * each for each in self.units))

    def grown(self, shapes: Shapes, count: int) -> dict[str, tuple[int, ...]]:
        """Return shapes in which the axes have so many units."""
        made = {name: list(shape) for name, shape in shapes.items()}
        for (name, axis), unit in zip(self.axes, self.units, strict=True):
            made[name][axis] = unit * count
        return {name: tuple(shape) for name, shape in made.items()}


def axis_sets(axes: Sequence[Axis], size: int) -> Iterator[tuple[Axis, ...]]:
    """Yield sets of axes; of many axes only neighbours, which go together mostly."""
    if len(axes) <= _MOST_COMBINED:
        yield from combinations(axes, size)
    else:
        for order in (axes, sorted(axes, key=itemgetter(1))):  # first of an input, then of a place in all of them
            yield from (tuple(order[start : start + size]) for start in range(len(axes) - size + 1))


def equal_axes(axes: Sequence[Axis], unit: int = 1) -> AxisGroup:
    """Return a group of axes of one extent."""
    return AxisGroup(tuple(axes), (unit,) * len(axes))


def sets_in_proportion(shapes: Shapes, axes: Sequence[Axis]) -> Iterator[AxisGroup]:
    """Yield sets of axes of several inputs and extents, all of them parts of the longest, as wide as they can be.

    Eight numbers of four bits have one word, and a hundred and twenty-eight of them one scale.
    """
    if len(axes) > _MOST_COMBINED:
        return
    for size in range(2, _MOST_IN_PROPORTION + 1):
        for group in combinations(axes, size):
            extents = [shapes[name][axis] for name, axis in group]
            parts = all(max(extents) % extent == 0 for extent in extents)
            if parts and len({*extents}) > 1 and len({name for name, _ in group}) > 1 and min(extents) > 1:
                yield AxisGroup(group, tuple(extent // gcd(*extents) for extent in extents))


def shapes_with(example: Shapes, found: Sequence[AxisGroup], values: Sequence[int]) -> Shapes:
    """Return the shapes with each group at so many of its units."""
    shapes = example
    for group, value in zip(found, values, strict=False):
        shapes = group.grown(shapes, value)
    return shapes

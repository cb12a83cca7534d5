"""Sets of axes of the inputs that may grow together, and the shapes when they do."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter

Shapes = Mapping[str, tuple[int, ...]]
Axis = tuple[str, int]
AxisGroup = tuple[tuple[Axis, ...], int]
"""Axes that grow together, and what they are multiples of."""
_MOST_COMBINED = 9
"""Axes of one extent of which all sets are tried."""


def axis_sets(axes: Sequence[Axis], size: int) -> Iterator[tuple[Axis, ...]]:
    """Yield sets of axes; of many axes only neighbours, which go together mostly."""
    if len(axes) <= _MOST_COMBINED:
        yield from combinations(axes, size)
    else:
        for order in (axes, sorted(axes, key=itemgetter(1))):  # first of an input, then of a place in all of them
            yield from (tuple(order[start : start + size]) for start in range(len(axes) - size + 1))


def shapes_grown(shapes: Shapes, group: Sequence[Axis], extent: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes with another extent of these axes."""
    made = {name: list(shape) for name, shape in shapes.items()}
    for name, axis in group:
        made[name][axis] = extent
    return {name: tuple(shape) for name, shape in made.items()}


def shapes_with(example: Shapes, found: Sequence[AxisGroup], values: Sequence[int]) -> Shapes:
    """Return the shapes with each group at so many of its units."""
    shapes = example
    for (group, unit), value in zip(found, values, strict=False):
        shapes = shapes_grown(shapes, group, unit * value)
    return shapes

"""Hidden shapes: drawn from a task's ranges by the judge's secret, with awkward sizes on purpose."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from evokernel.evaluate.numerics.size_ranges import odd_size, range_beside
from evokernel.records.hidden_check import ADDED
from evokernel.task import Workload, WorkloadSet

LARGE_SHAPES = BESIDE, BETWEEN = "beside", "between"
"""Names of hidden shapes near those of the search, and down to the others, which are drawn from their ranges."""
_SMALLER = (0.25, 0.75)
"""Least and largest factor on numbers that are no sizes: a part of an admitted number is less strange than twice."""


def probe_workloads(workloads: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return hidden shapes drawn from the ranges of the set: `probes` of them, at least two.

    The first has every dimension at its minimum, the second every dimension odd and in the upper half of its range. Of
    the third and the fourth one has a dimension right below a power of two, the other right above one: some kernels
    are wrong on those alone. The others mix primes, neighbours of powers of two, ends of ranges and plain draws.
    Sizes of the first search workload that have no range are kept. Other numbers (an epsilon) are smaller in all shapes
    but the first: a kernel may have the usual ones in its text.
    """
    chosen = [_drawn(workloads, lambda low, high: low)]
    chosen.append(_drawn(workloads, lambda low, high: odd_size((low + high + 1) // 2, high, rng)))
    sides = rng.choice((-1, 1), len(workloads.probe)).tolist()
    for sign in (1, -1)[: max(workloads.probes - 2, 0)]:
        mine = iter([sign * side for side in sides])
        chosen.append(_drawn(workloads, partial(_beside_a_power, sides=mine, rng=rng)))
    while len(chosen) < workloads.probes:
        chosen.append(_drawn(workloads, lambda low, high: _awkward(low, high, rng)))
    for shape in chosen[1:]:
        share = float(rng.uniform(*_SMALLER))
        shape.update({name: share * value for name, value in shape.items() if isinstance(value, float)})
    return probes_again(chosen)


def greatest_workload(workloads: WorkloadSet) -> Workload:
    """Return the hidden shape with every dimension at its maximum, which no draw decides."""
    return Workload("greatest", _drawn(workloads, lambda low, high: high))


def large_workloads(workloads: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return two hidden shapes that are large; none where no size varies.

    Ranges of hidden shapes may end far below the sizes of the search, and held-out sizes are in the task's text: a
    kernel may be wrong on the sizes between them. One shape is a little smaller than a search workload, odd where it
    can be; the sizes of the other lie anywhere between the ends of the ranges and those of a search workload.
    """
    if not workloads.probe:
        return ()
    beside = like_searched(workloads, rng, lambda _, low, size: odd_size(size - max(size // 8, 1), size, rng))
    between = like_searched(workloads, rng, lambda _, low, size: round(low * (size / low) ** rng.uniform(0.0, 1.0)))
    return Workload(BESIDE, beside), Workload(BETWEEN, between)


def probes_again(shapes: Sequence[Mapping[str, int | float]]) -> tuple[Workload, ...]:
    """Return hidden workloads with shapes that another judge of the same run has drawn."""
    return tuple(Workload(f"probe-{index}", dict(dims)) for index, dims in enumerate(shapes))


def hidden_name(workload: Workload) -> str:
    """Return words for a hidden workload that do not reveal its shape."""
    return "a hidden check that was added in this run" if workload.name.startswith(ADDED) else "a hidden shape"


def like_searched(
    workloads: WorkloadSet, rng: np.random.Generator, draw: Callable[[str, int, int], int]
) -> dict[str, int | float]:
    """Return dimensions of a search workload with other sizes; `draw` gets a name, the end of a range, and the size."""
    searched = workloads.search[int(rng.integers(len(workloads.search)))]
    sizes = searched.sizes
    for name, ends in workloads.probe.items():
        low, high = range_beside(workloads, name, sizes)
        if any(isinstance(end, str) for end in ends):
            sizes[name] = odd_size(low, high, rng)
        else:
            sizes[name] = max(low, draw(name, min(high, sizes[name]), sizes[name]))
    return {**searched.dims, **sizes}


def _drawn(workloads: WorkloadSet, draw: Callable[[int, int], int]) -> dict[str, int | float]:
    sizes = workloads.fixed_sizes
    for name in workloads.probe:
        sizes[name] = draw(*workloads.range_of(name, sizes))
    return {**workloads.search[0].dims, **sizes}


def _beside_a_power(low: int, high: int, *, sides: Iterator[int], rng: np.random.Generator) -> int:
    side = next(sides)
    powers = [power for power in (1 << bits for bits in range(4, high.bit_length() + 1)) if low <= power + side <= high]
    return int(rng.choice(powers)) + side if powers else _awkward(low, high, rng)


def _awkward(low: int, high: int, rng: np.random.Generator) -> int:
    value = int(rng.integers(low, high + 1))
    match int(rng.integers(5)):
        case 0:
            return next((n for n in range(value, high + 1) if _prime(n)), value)
        case 1:
            near = (1 << max(value.bit_length() - 1, 0)) + int(rng.choice([-1, 1]))
            return min(max(near, low), high)
        case 2:
            return int(rng.choice([low, high]))
        case 3:
            return odd_size(low, high, rng)
    return value


def _prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))

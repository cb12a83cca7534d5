"""Hidden shapes: drawn from a task's ranges by the judge's secret, with awkward sizes on purpose."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evokernel.task import Workload, WorkloadSet


def probe_workloads(workloads: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return hidden shapes drawn from the ranges of the set: `probes` of them, at least two.

    The first has every dimension at its minimum, the second every dimension odd and in the upper half of its range;
    the others mix primes, neighbours of powers of two, ends of ranges and plain draws. Numbers of the first search
    workload that have no range (an epsilon) are kept.
    """
    base = workloads.search[0].dims
    ranges = workloads.probe
    chosen: list[dict[str, int]] = [
        {name: low for name, (low, _) in ranges.items()},
        {name: _odd((low + high + 1) // 2, high, rng) for name, (low, high) in ranges.items()},
    ]
    while len(chosen) < workloads.probes:
        chosen.append({name: _awkward(low, high, rng) for name, (low, high) in ranges.items()})
    return probes_again([{**base, **dims} for dims in chosen])


def probes_again(shapes: Sequence[Mapping[str, int | float]]) -> tuple[Workload, ...]:
    """Return hidden workloads with shapes that another judge of the same run has drawn."""
    return tuple(Workload(f"probe-{index}", dict(dims)) for index, dims in enumerate(shapes))


def _odd(low: int, high: int, rng: np.random.Generator) -> int:
    value = int(rng.integers(low, high + 1)) | 1
    return value if value <= high else max(value - 2, low)


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
            return _odd(low, high, rng)
    return value


def _prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))

"""Workloads around an example: search, holdout, and the range of hidden probes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch

from evokernel.scaffold.dimensions import Layout, outputs_of, shapes_at
from evokernel.scaffold.user_operation import UserOperation

FLOPS_CAP = 400_000_000
"""Limit that keeps a plain kernel well under a second, so that a search tries many candidates."""
ELEMENTS_CAP = 8_000_000
_PROBE_FLOPS = 20_000_000
_PROBE_HIGHEST = 131
_LEAST = (1, 2, 3, 4, 8, 16, 32)
_SEARCH = ((1.0, 1.0), (2.0, 0.5), (0.5, 2.0))
_HOLDOUT = ((0.76, 0.77), (1.3, 0.6), (0.4, 1.45))

Dims = dict[str, int]


@dataclass(frozen=True)
class WorkloadDraft:
    """Workloads of a new task."""

    search: tuple[Dims, ...]
    """Dimensions of each."""
    holdout: tuple[Dims, ...]
    """Dimensions of each."""
    probe: Mapping[str, tuple[int, int]]
    """Lowest and highest value by dimension."""
    cut: bool
    """True where the example was too large."""


def plan_workloads(subject: UserOperation, layout: Layout, flops: Callable[[Mapping[str, int]], int]) -> WorkloadDraft:
    """Return workloads that the reference runs on, scaled around the example.

    An example above the limits is halved until it fits.
    """
    least = _least(subject, layout)
    base = _cut(layout, flops, least)
    search = _scaled(subject, layout, base, _SEARCH, odd=False, least=least)
    holdout = [dims for dims in _scaled(subject, layout, base, _HOLDOUT, odd=True, least=least) if dims not in search]
    probe = {name: (least, max(least, _probe_high(layout, flops, value))) for name, value in base.items()}
    return WorkloadDraft(tuple(search), tuple(holdout) or (base,), probe, cut=base != layout.example)


def elements(layout: Layout, dims: Mapping[str, int]) -> int:
    """Return the number of elements of all inputs together."""
    return sum(prod(shape) for shape in shapes_at(layout, dims).values())


def _cut(layout: Layout, flops: Callable[[Mapping[str, int]], int], least: int) -> Dims:
    dims = layout.example
    while flops(dims) > FLOPS_CAP or elements(layout, dims) > ELEMENTS_CAP:
        largest = max(dims, key=lambda name: dims[name])
        if dims[largest] <= 2 * least:
            break
        dims = {**dims, largest: dims[largest] // 2}
    return dims


def _scaled(
    subject: UserOperation, layout: Layout, base: Dims, factors: Sequence[tuple[float, float]], *, odd: bool, least: int
) -> list[Dims]:
    """Return the base with dimensions scaled by the two factors in turn; distinct ones that run."""
    made: list[Dims] = []
    for pair in factors:
        dims = {
            name: max(min(least, value), int(value * pair[place % 2]) | int(odd))
            for place, (name, value) in enumerate(base.items())
        }
        if dims not in made and _finite(subject, layout, dims, data=False):
            made.append(dims)
    return made


def _least(subject: UserOperation, layout: Layout) -> int:
    """Return the smallest size with finite results, or with any results where none are finite."""
    for data in (True, False):
        for least in _LEAST:
            if _finite(subject, layout, dict.fromkeys(layout.example, least), data=data):
                return least
    return min(layout.example.values(), default=1)


def _finite(subject: UserOperation, layout: Layout, dims: Mapping[str, int], *, data: bool) -> bool:
    shapes = shapes_at(layout, dims)
    try:
        if not data:
            return all(item.numel() > 0 for item in outputs_of(subject, shapes))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            result = subject.call({name: torch.randn(shape, generator=generator) for name, shape in shapes.items()})
    except Exception:  # noqa: BLE001 - a user's function may raise anything; then it does not run at this size
        return False
    flat = result if isinstance(result, (tuple, list)) else (result,)
    return all(item.numel() > 0 and bool(torch.isfinite(item).all()) for item in flat)


def _probe_high(layout: Layout, flops: Callable[[Mapping[str, int]], int], value: int) -> int:
    """Return the highest probe of a dimension: odd, at most about twice the example, cheap at all dimensions."""
    high = _PROBE_HIGHEST
    while high > 2 and flops(dict.fromkeys(layout.example, high)) > _PROBE_FLOPS:
        high = high * 3 // 4
    return min(high, 2 * value + 1) | 1

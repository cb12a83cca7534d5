"""Sizes that an exported operator answers between: the ranges of a task's own workloads, and draws from them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evokernel.errors import TaskError
from evokernel.export.template_text import dimensions_in_shapes, dimensions_in_strides, numbers_of
from evokernel.task import Task, Workload

Dims = dict[str, int | float]
_OVER_LARGEST = 2
"""A size takes at most so many times the memory of the largest workload."""
_GRANULES = (64, 64, 16, 1)
"""Multiples that drawn sizes are, in turn: most sizes of programs are round, and some are not."""
_TRIES = 40


@dataclass(frozen=True, slots=True)
class SizeDomain:
    """The sizes between the workloads of a task."""

    ranges: Mapping[str, tuple[int, int]]
    """Least and greatest value of each size that hidden workloads vary, too."""
    others: tuple[Mapping[str, int | float], ...]
    """The values that the other dimensions have together, in some workload."""
    most_bytes: int
    """Limit of the memory that one call touches."""

    def draw(self, task: Task, count: int, rng: np.random.Generator) -> list[Dims]:
        """Return sizes spread over the domain, evenly in their logarithms; fewer where there are not so many."""
        strata = {name: rng.permutation(count) for name in self.ranges}
        found = [*self.workloads(task)]
        own = len(found)
        for place in range(count):
            for _ in range(_TRIES):
                dims = dict(self.others[int(rng.integers(len(self.others)))])
                for name, (low, high) in self.ranges.items():
                    share = (strata[name][place] + rng.random()) / count
                    granule = _GRANULES[int(rng.integers(len(_GRANULES)))]
                    dims[name] = _rounded(low * (high / low) ** share, granule, low, high)
                if dims not in found and self.holds(task, dims):
                    found.append(dims)
                    break
        return found[own:]

    def between(
        self, task: Task, pairs: Sequence[tuple[Dims, Dims]], count: int, rng: np.random.Generator
    ) -> list[Dims]:
        """Return sizes between both sizes of each pair in turn; fewer where there are not so many."""
        found: list[Dims] = []
        for place in range(count * 2 if pairs else 0):
            one, other = pairs[place % len(pairs)]
            dims = dict(one)
            for name, (low, high) in self.ranges.items():
                middle = one[name] * (other[name] / one[name]) ** rng.uniform(0.25, 0.75)
                granule = math.gcd(int(one[name]), int(other[name]))
                dims[name] = _rounded(middle, min(granule, 64), low, high)
            if len(found) < count and dims not in (*found, *map(dict, (one, other))) and self.holds(task, dims):
                found.append(dims)
        return found

    def holds(self, task: Task, dims: Mapping[str, int | float]) -> bool:
        """Say whether the task can be computed at some sizes, in the memory of its own workloads."""
        workload = Workload("drawn", dims)
        try:
            for tensor in task.signature.tensors:
                if min(tensor.shape_at(workload.sizes), default=1) < 1:
                    return False
                tensor.strides_at(workload.sizes)
            return task.flops_at(workload) >= 0 and touched(task, workload) <= self.most_bytes
        except ValueError:
            return False

    def workloads(self, task: Task) -> Iterator[Dims]:
        """Yield the sizes of the task's own workloads."""
        offered = next(iter(task.workloads.values()))
        yield from (dict(workload.dims) for workload in (*offered.search, *offered.holdout))


def touched(task: Task, workload: Workload) -> int:
    """Return the bytes of all tensors of a call."""
    return sum(tensor.bytes_at(workload.sizes) for tensor in task.signature.tensors)


def size_domain(task: Task) -> SizeDomain:
    """Return the domain of a task with the workloads of one class of devices.

    Raises `TaskError` if there are no sizes between its workloads, or its contents or calls do not tell them.
    """
    offered = next(iter(task.workloads.values()))
    workloads = (*offered.search, *offered.holdout)
    if task.signature.generators:
        raise TaskError("its inputs are made by generators, which need not take other sizes")
    known = {*dimensions_in_shapes(task), *dimensions_in_strides(task), *numbers_of(task)}
    if not all(known.issuperset(workload.dims) for workload in workloads):
        raise TaskError("a call does not tell all of its sizes")
    ranges = {
        name: (min(each.sizes[name] for each in workloads), max(each.sizes[name] for each in workloads))
        for name in offered.probe
    }
    if all(low == high for low, high in ranges.values()):
        raise TaskError("all of its workloads have the same sizes")
    others: list[Dims] = []
    for workload in workloads:
        rest = {name: value for name, value in workload.dims.items() if name not in ranges}
        others += [] if rest in others else [rest]
    return SizeDomain(ranges, tuple(others), _OVER_LARGEST * max(touched(task, each) for each in workloads))


def _rounded(value: float, granule: int, low: int, high: int) -> int:
    """Return the closest multiple in a range, or the closest integer where the range holds too few multiples."""
    step = granule if high - low >= 4 * granule else 1
    return min(max(round(value / step) * step, low), high)

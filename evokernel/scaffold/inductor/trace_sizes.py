"""Sizes for a trace that holds for all sizes: distinct, so that no two dimensions are taken for one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evokernel.source.expressions import evaluate
from evokernel.task import Task, Workload, WorkloadSet

Dims = Mapping[str, int | float]
_LEAST = 2
"""A compiler takes 0 and 1 for constants."""
_TRIES = 64
_MOST_BYTES = 200_000
_MOST_FLOPS = 5_000_000
_ODD = (73, 67, 61, 53, 43, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 3, 3, 3)
_EVEN = ((32, 16, 48, 16, 16, 16, 16, 16), (16,) * 8, (8, 16, 8, 8, 16, 8, 8, 8), (8,) * 8, (4,) * 8)


@dataclass(frozen=True, slots=True)
class TraceSizes:
    """Sizes and numbers that a reference is traced with."""

    dims: dict[str, int | float]
    """By name, as in a workload."""
    free: frozenset[str]
    """Names of the sizes that the program must not depend on; all others are constants to it."""

    def is_free(self, extent: str | int) -> bool:
        """Say whether an extent of a tensor changes from call to call."""
        if isinstance(extent, int):
            return False
        smaller = {name: value - (name in self.free) for name, value in self.dims.items() if isinstance(value, int)}
        return evaluate(extent, smaller) != evaluate(extent, {**smaller, **self._sizes()})

    def _sizes(self) -> dict[str, int]:
        return {name: value for name, value in self.dims.items() if isinstance(value, int)}


def workloads_of(task: Task) -> WorkloadSet:
    """Return the workloads of a task that is resolved for one device class."""
    (workloads,) = task.workloads.values()
    return workloads


def all_dims(task: Task) -> list[Dims]:
    """Return the dimensions of all workloads, and those at the ends of the hidden ones' ranges."""
    workloads = workloads_of(task)
    named = [workload.dims for workload in (*workloads.search, *workloads.holdout)]
    return [*named, *({**named[0], **sizes} for sizes in workloads.corners(tuple(workloads.probe)))]


def trace_sizes(task: Task) -> TraceSizes:
    """Return odd sizes near those of the largest workload, distinct wherever shapes differ.

    A size is free where it differs between workloads or has a range for hidden ones.
    """
    known = all_dims(task)
    workloads = workloads_of(task)
    base = max((*workloads.search, *workloads.holdout), key=task.bytes_at)
    free = [name for name in base.sizes if len({dims[name] for dims in known}) > 1]
    values = {name: [int(dims[name]) for dims in known] for name in free}
    choices = {name: _choices(base.sizes[name], min(values[name]), max(values[name])) for name in free}
    extents = {extent for tensor in task.signature.tensors for extent in tensor.shape if isinstance(extent, int)}
    for shift in range(_TRIES):
        sizes, taken = dict[str, int](), {0, 1, *extents}
        for place, name in enumerate(free):
            start = shift * (1 + place) % len(choices[name])
            turned = [*choices[name][start:], *choices[name][:start]]
            sizes[name] = next((each for each in turned if each not in taken), turned[0])
            taken.add(sizes[name])
        dims = {**base.dims, **sizes}
        if _distinct(task, dims):
            break
    return TraceSizes(dims, frozenset(name for name in free if sizes[name] >= _LEAST))


def _choices(size: int, least: int, most: int) -> list[int]:
    """Return sizes for a trace, the best first: odd ones from a size downwards, larger ones, even ones, too large ones.

    Of a size that may not be less than 64 the reference may take 64 away: what it exceeds that by is no constant.
    """
    below, first = size - 1 + size % 2, max(least, 1) + _LEAST
    beyond = max(most, first) + 1
    found = (
        range(below, first - 1, -2),
        range(max(below + 2, first | 1), beyond, 2),
        range(first + first % 2, beyond, 2),
        range(beyond, beyond + _TRIES),
    )
    return [each for some in found for each in some[:_TRIES]]


def _distinct(task: Task, dims: Dims) -> bool:
    """Say whether different extents, the constants 0 and 1 among them, have different values."""
    sizes = Workload("", dims).sizes
    extents = {0, 1, *(extent for tensor in task.signature.tensors for extent in tensor.shape)}
    return len({evaluate(extent, sizes) for extent in extents}) == len(extents)


def check_workloads(task: Task, *, quick: Callable[[Workload], bool] = lambda _: True) -> Iterator[Workload]:
    """Yield small workloads to compare results on: the least sizes, odd ones, and multiples of 16.

    These are the largest that are `quick`.
    """
    yield _near(task, "least", (0,) * len(workloads_of(task).probe))
    odd = [_near(task, "odd", _ODD[start:]) for start in range(len(_ODD) - len(workloads_of(task).probe))]
    yield next((each for each in odd if _is_small(task, each) and quick(each)), odd[-1])
    even = [_near(task, "even", sizes) for sizes in _EVEN]
    yield next((each for each in even if _is_small(task, each) and quick(each)), even[-1])


def _near(task: Task, name: str, wanted: Sequence[int]) -> Workload:
    """Return a workload with these sizes, or the nearest ones that may be."""
    workloads = workloads_of(task)
    sizes = workloads.fixed_sizes
    for dimension, size in zip(workloads.probe, wanted, strict=False):
        low, high = workloads.range_of(dimension, sizes)
        sizes[dimension] = min(max(size, low), high)
    return Workload(name, {**workloads.search[0].dims, **sizes})


def _is_small(task: Task, workload: Workload) -> bool:
    """Say whether an interpreter computes it in seconds."""
    return task.bytes_at(workload) <= _MOST_BYTES and task.flops_at(workload) <= _MOST_FLOPS


def places(task: Task) -> Iterator[tuple[int, int, str | int]]:
    """Yield each axis of each tensor: the argument's number, the axis, the extent."""
    for number, tensor in enumerate(task.signature.tensors):
        for axis, extent in enumerate(tensor.shape):
            yield number, axis, extent

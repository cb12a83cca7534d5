"""Inputs for checks: five distributions, drawn on their device from the judge's secret."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, is_float, store
from evokernel.source.expressions import evaluate
from evokernel.task import DISTRIBUTIONS, Role, Task, Tensor, Workload

_NARROW_RANGE = ("float16",)
"""Dtypes whose largest number (65504) one product of ordinary magnitudes would exceed."""


def draw(
    task: Task, workload: Workload, distribution: str, rng: np.random.Generator, *, device: str = "cpu"
) -> dict[str, Array]:
    """Return new content for every input and in/out tensor, by name, on a device.

    normal is N(0,1); offset N(100,1), where differences cancel; wide log-uniform magnitudes 1e-4..1e4 with a sign;
    integers01 holds 0 and 1; needles zeros with one value of magnitude 10..1000 per row and 1/256 more, so that the
    mass sits in unpredictable places. float16 gets smaller magnitudes.

    Integers with a bound `below` are uniform in normal and offset, the more frequent the smaller in wide (each power of
    two as likely as the next), and nearly all 0 in needles. Other integer tensors beside floating-point ones are taken
    for indices. They stay below the extents of those, or below the extents they do not share, where there are such: the
    columns, for one label per row. Without floating-point tensors they are signed numbers up to 1000.

    Raises:
        TaskError: the distribution is unknown or a shape has an extent below 1.
    """
    contents = {}
    for tensor in task.signature.inputs:
        shape = shape_of(task, tensor, workload)
        values = draw_values(task, workload, tensor, distribution, rng, count=math.prod(shape), device=device)
        contents[tensor.name] = values.reshape(shape)
    return contents


def draw_values(
    task: Task,
    workload: Workload,
    tensor: Tensor,
    distribution: str,
    rng: np.random.Generator,
    *,
    count: int,
    device: str,
) -> Array:
    """Return `count` values such as `draw` gives one tensor, flat. Raises as `draw` does."""
    if distribution not in DISTRIBUTIONS:
        raise TaskError(f"unknown distribution {distribution!r}; known: {', '.join(DISTRIBUTIONS)}")
    row = shape_of(task, tensor, workload)[-1] if tensor.shape else 1
    source = _Source.seeded(rng, device, torch.float64 if tensor.dtype == "float64" else torch.float32)
    if is_float(tensor.dtype):
        values = _floats(distribution, count, row, source, narrow=tensor.dtype in _NARROW_RANGE)
    elif tensor.below is not None:
        values = _bounded(distribution, count, row, source, bound=_said_bound(task, workload, tensor))
    else:
        values = _integers(distribution, count, row, source, bound=_index_bound(task, workload, tensor))
    return store(values, tensor.dtype)


def shape_of(task: Task, tensor: Tensor, workload: Workload) -> tuple[int, ...]:
    """Return a tensor's shape on a workload. Raises `TaskError` where an extent is below 1."""
    try:
        shape = tensor.shape_at(workload.sizes)
    except ValueError as error:
        raise TaskError(f"task {task.name!r}: shape of {tensor.name!r}: {error}") from None
    if any(extent < 1 for extent in shape):
        raise TaskError(
            f"task {task.name!r}: {tensor.name!r} gets the shape {shape} with {dict(workload.dims)}; "
            "narrow the ranges in WorkloadSet.probe so that every extent is at least 1"
        )
    return shape


def result_tensors(task: Task) -> tuple[Tensor, ...]:
    """Return the tensors a kernel writes: in/out ones, then outputs; the order of a reference's results."""
    return (*(tensor for tensor in task.signature.inputs if tensor.role is Role.INOUT), *task.signature.outputs)


def secret_generator(rng: np.random.Generator, device: str) -> torch.Generator:
    """Return a generator of bulk content on a device, seeded by the judge's secret."""
    return torch.Generator(device).manual_seed(int(rng.integers(2**63)))


@dataclass(frozen=True, slots=True)
class _Source:
    """Random numbers in bulk, on one device; `real` is the dtype they are drawn in."""

    generator: torch.Generator
    real: torch.dtype

    @classmethod
    def seeded(cls, rng: np.random.Generator, device: str, real: torch.dtype) -> "_Source":
        return cls(secret_generator(rng, device), real)

    def normal(self, count: int) -> Array:
        return torch.randn(count, generator=self.generator, device=self.generator.device, dtype=self.real)

    def integers(self, low: int, high: int, count: int, *, dtype: torch.dtype = torch.int64) -> Array:
        """Return integers from `low` to `high - 1`."""
        return torch.randint(low, high, (count,), generator=self.generator, device=self.generator.device, dtype=dtype)

    def magnitudes(self, low: float, high: float, count: int) -> Array:
        """Return numbers with a sign whose magnitudes are log-uniform between two powers of ten."""
        exponents = torch.rand(count, generator=self.generator, device=self.generator.device, dtype=self.real)
        signs = self.integers(0, 2, count, dtype=self.real).mul_(2).sub_(1)
        return torch.pow(10.0, exponents.mul_(high - low).add_(low)).mul_(signs)

    def needles(self, count: int, row: int, make: Callable[[int], Array]) -> Array:
        """Return zeros with one value of `make` in each row of `row` elements, and 1/256 more anywhere."""
        starts = torch.arange(0, count, row, device=self.generator.device)
        one_each = (starts + self.integers(0, row, starts.numel())).clamp_(max=count - 1)
        places = torch.cat([one_each, self.integers(0, count, count // 256)])
        found = make(places.numel())
        values = torch.zeros(count, dtype=found.dtype, device=found.device)
        values[places] = found
        return values


def _floats(distribution: str, count: int, row: int, source: _Source, *, narrow: bool) -> Array:
    if distribution == "integers01":
        return source.integers(0, 2, count, dtype=source.real)
    if distribution == "wide":
        return source.magnitudes(*((-3.0, 2.0) if narrow else (-4.0, 4.0)), count)
    if distribution == "needles":
        low, high = (0.9, 1.8) if narrow else (1.0, 3.0)
        return source.needles(count, row, lambda size: source.magnitudes(low, high, size))
    centre = 0.0 if distribution == "normal" else (8.0 if narrow else 100.0)
    return source.normal(count).add_(centre)


def _integers(distribution: str, count: int, row: int, source: _Source, *, bound: int | None) -> Array:
    if bound is not None:  # an index or a class label: any other value may be out of range
        values = source.integers(0, min(bound, 2) if distribution == "integers01" else bound, count)
        values[source.integers(0, count, 1)] = values.max() if distribution == "integers01" else bound - 1
        return values
    if distribution == "integers01":
        return source.integers(0, 2, count)
    if distribution == "wide":
        return source.magnitudes(0.0, 3.0, count).round_()
    if distribution == "needles":
        return source.needles(count, row, lambda size: source.integers(10, 1000, size))
    return source.integers(-8, 9, count).add_(0 if distribution == "normal" else 100)


def _bounded(distribution: str, count: int, row: int, source: _Source, *, bound: int) -> Array:
    """Return integers from 0 to `bound` - 1, the largest of them at least once but in integers01."""
    if distribution == "integers01":
        return source.integers(0, min(bound, 2), count)
    if distribution == "wide":
        parts = source.integers(0, 1 << 24, count, dtype=source.real).div_(1 << 24)
        values = torch.pow(float(bound + 1), parts).sub_(1).long().clamp_(0, bound - 1)
    elif distribution == "needles":
        values = source.needles(count, row, lambda size: source.integers(0, bound, size))
    else:
        values = source.integers(0, bound, count)
    values[source.integers(0, count, 1)] = bound - 1
    return values


def _said_bound(task: Task, workload: Workload, tensor: Tensor) -> int:
    try:
        bound = evaluate(tensor.below or 0, workload.sizes)
    except ValueError as error:
        raise TaskError(f"task {task.name!r}: what {tensor.name!r} stays below: {error}") from None
    if bound < 1:
        raise TaskError(f"task {task.name!r}: {tensor.name!r} would have to stay below {bound}; it must be at least 1")
    return bound


def _index_bound(task: Task, workload: Workload, index: Tensor) -> int | None:
    """Return the least extent an index may point into, or None where all inputs are integers."""
    floats = [tensor for tensor in task.signature.inputs if is_float(tensor.dtype)]
    sizes = {
        size: extent
        for tensor in floats
        for size, extent in zip(tensor.shape, shape_of(task, tensor, workload), strict=True)
    }
    other = [extent for size, extent in sizes.items() if size not in index.shape]
    return min(other or sizes.values(), default=1) if floats else None

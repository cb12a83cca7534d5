"""Inputs for checks: the distributions of a task and the judge's own, drawn on their device from its secret."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, is_float, store, torch_dtype
from evokernel.evaluate.numerics.generated_inputs import generate
from evokernel.evaluate.numerics.masks import draw_mask, patch_mask
from evokernel.evaluate.numerics.patchwork import InputSource, indices_in_beats, patch_indices, patch_numbers
from evokernel.source.expressions import evaluate
from evokernel.task import (
    ABOVE,
    APART,
    BELOW,
    COARSE,
    DISTRIBUTIONS,
    ENDS,
    EXTREME,
    INFINITE,
    LARGE,
    MODEST,
    NAN,
    PATCHWORK,
    PATCHWORK_BEATS,
    PATCHWORK_FEW,
    PATCHWORK_KEPT,
    PATCHWORKS,
    SCALED,
    SHIFTED,
    TELLING,
    TINY,
    ZEROS,
    Role,
    Task,
    Tensor,
    Workload,
)

_PATCHED_SHARE = 0.25
"""Share of the smaller tensors that are a patchwork, too."""
_LOUD = ("wide", "needles")
"""Distributions of large numbers."""
_MIXED = 0.75
"""Share of the draws of `offset` in which some rows are normal."""
_MANY_ROWS, _FEW_ROWS = 32, 4
"""Of so many rows as few may stay."""
_FEW_SHARE = 2 / 3
"""Share of these draws in which they do."""
_NARROW_RANGE = ("float16", "float8_e4m3fn", "float8_e5m2")
"""Dtypes whose largest number (65504 of float16) one product of ordinary magnitudes would exceed."""
_BYTES = ("int8", "uint8")
"""Integers that hold data, not indices: torch takes none of them for an index."""
_BEYOND_HALF = {"int32": (1 << 15, 40_000), "int64": (1 << 31, 3_000_000_000)}
"""Sizes of a number that needs more than half the bits of its type, and whose square the type still holds."""
_TICKS = 16
"""Coarse numbers are so many to 1."""
_TINY = 1e-12
"""Below what kernels take for 0, mostly; products of three such numbers are still normal ones."""
_NO_NUMBERS = {NAN: (math.nan,), INFINITE: (math.inf, -math.inf), ABOVE: (math.inf,), BELOW: (-math.inf,)}
"""What stands in few places of a normal distribution."""
_EXTREME_SHARE = 0.125
"""Share of the least and the largest number in wide bytes."""


def draw(
    task: Task, workload: Workload, distribution: str, rng: np.random.Generator, *, device: str = "cpu"
) -> dict[str, Array]:
    """Return new content for every input and in/out tensor, by name, on a device.

    normal is N(0,1); offset N(100,1), where differences cancel, mostly in some rows only and normal in the others; wide
    log-uniform magnitudes 1e-4..1e4 with a sign; integers01 holds 0 and 1; needles zeros with one value of magnitude
    10..1000 per row and 1/256 more, so that the mass sits in unpredictable places. Types of a short range get smaller
    magnitudes. patchwork puts values of two of the task's distributions together, row by row (see `patch_numbers`), in
    the largest tensor and in some others; patchwork/few and patchwork/beats are for large ones (see `task.PATCHWORKS`).

    Integers with a bound `below` are uniform in normal and offset, the more frequent the smaller in wide (each power of
    two as likely as the next), and nearly all 0 in needles. Other integer tensors beside floating-point ones are taken
    for indices. They stay below the extents of those, or below the extents they do not share, where there are such: the
    columns, for one label per row. Without floating-point tensors they are signed numbers up to 1000, and needles and
    patchworks have one that half the bits do not hold. int8 and uint8 without a bound take their whole range; wide has
    ends of it, and needles nothing else but zeros. For bool see `draw_mask`.

    What admission adds is normal but for one thing: numbers near 0 (`normal/1e4`), ones whose sums of products are
    about 1 (`normal/sums`), large ones (`normal*1e5`), ones of one sign (`normal-10`), ones that tie (`normal/coarse`:
    multiples of 1/16, and -0.0), NaN or infinities in few places, large numbers in int32 of one sign, or of both
    (`normal/apart`), or zeros of both signs in half of all places (`normal/zeros`).

    ends/0 and ends/1 are the first distribution of the task but for the first and the last row of each input. tiny is
    normal times 1e-12. In extreme, integers without a bound take all bits of their type (see `_extremes`).

    Floats are times the scale of their tensor. Inputs with a generator get what it makes for a new seed, whatever the
    distribution. Raises `TaskError` if the distribution is unknown, a shape has an extent below 1, or a generator
    failed.
    """
    contents, generated = {}, generate(task, workload, rng, device=device)
    for tensor in task.signature.inputs:
        if tensor.name in generated:
            contents[tensor.name] = generated[tensor.name]
            continue
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
    if distribution not in (*DISTRIBUTIONS, *PATCHWORKS, *ENDS, TINY, EXTREME, *TELLING):
        raise TaskError(f"unknown distribution {distribution!r}; known: {', '.join(DISTRIBUTIONS)}")
    row = shape_of(task, tensor, workload)[-1] if tensor.shape else 1
    source = InputSource(secret_generator(rng, device), torch.float64 if tensor.dtype == "float64" else torch.float32)
    if distribution in (*ENDS, PATCHWORK_BEATS):
        usual = draw_values(task, workload, tensor, task.declared[0], rng, count=count, device=device)
        return _changed(task, workload, tensor, usual, distribution, source, row=row)
    known, patched, few = task.declared, distribution in PATCHWORKS, distribution == PATCHWORK_FEW
    if tensor.dtype == "bool":
        if patched and known != ("integers01",):
            return patch_mask(count, row, source, filled=distribution != PATCHWORK, few=few)
        return draw_mask(known[0] if patched else distribution, count, row, source)
    bound = bound_of(task, workload, tensor)
    ordinary = partial(_ordinary, tensor=tensor, row=row, source=source, bound=bound)
    if not patched:
        values = ordinary(distribution, count)
        if distribution == "offset" and "normal" in known and _has_rows(count, row) and rng.random() < _MIXED:
            _mix_rows(values.view(-1, row), source, draw=ordinary)
    elif not _patched(task, workload, tensor, rng):
        values = ordinary(known[0], count)
    elif bound is not None:
        values = patch_indices(count, row, source, bound=min(bound, 2) if known == ("integers01",) else bound, few=few)
    else:
        loud = [each for each in known if few and each in _LOUD]
        homes = (known[0], str(rng.choice(loud or known[1:] or known)))
        far = is_float(tensor.dtype) and known[0] == "normal" and "wide" in known
        values = patch_numbers(count, row, source, draw=ordinary, homes=homes, few=few, far=far)
        if tensor.dtype in _BEYOND_HALF and "needles" in known:
            _put_beyond_half(values, source, dtype=tensor.dtype)
    scale = tensor.scale * (_modest(task, workload) if distribution == MODEST and is_float(tensor.dtype) else 1.0)
    return store(values if scale == 1.0 else values.mul_(scale), tensor.dtype)


def _modest(task: Task, workload: Workload) -> float:
    """Return the size of numbers whose sums of products are about 1."""
    return math.pow(max(evaluate(task.precision.reduction, workload.sizes), 1), -0.25)


def bound_of(task: Task, workload: Workload, tensor: Tensor) -> int | None:
    """Return what the integers of a tensor stay below, or None where nothing says so."""
    if tensor.below is not None:
        return _said_bound(task, workload, tensor)
    if is_float(tensor.dtype) or tensor.dtype in _BYTES:
        return None
    return _index_bound(task, workload, tensor)


def _ordinary(home: str, size: int, *, tensor: Tensor, row: int, source: InputSource, bound: int | None) -> Array:
    """Return numbers of a distribution that is no patchwork."""
    if is_float(tensor.dtype):
        return _floats(home, size, row, source, narrow=tensor.dtype in _NARROW_RANGE)
    if home == EXTREME and bound is None:
        return _extremes(size, row, source, dtype=torch_dtype(tensor.dtype))
    if tensor.below is not None and bound is not None:
        return _bounded(home, size, row, source, bound=bound)
    if tensor.dtype in _BYTES:
        return _whole_range(home, size, row, source, dtype=torch_dtype(tensor.dtype))
    if home in LARGE and bound is None and tensor.dtype == "int32":
        return source.integers(0, LARGE[home], size)
    if home == APART and bound is None and tensor.dtype == "int32":
        return source.integers(-(1 << 31), 1 << 31, size)
    values = _integers(home, size, row, source, bound=bound)
    if home == "needles" and bound is None:
        _put_beyond_half(values, source, dtype=tensor.dtype)
    return values


def _put_beyond_half(values: Array, source: InputSource, *, dtype: str) -> None:
    """Make one of some integers a number that half the bits of its type do not hold; no sample finds it."""
    low, high = _BEYOND_HALF[dtype]
    sign = source.integers(0, 2, 1).mul_(2).sub_(1)
    values[source.integers(0, len(values), 1)] = source.integers(low, high, 1) * sign


def _changed(
    task: Task, workload: Workload, tensor: Tensor, values: Array, distribution: str, source: InputSource, *, row: int
) -> Array:
    """Put integers with a bound in beats; or make the first and the last row hold one number alone.

    Then no look for another one ends within the tensor.
    """
    bound = None if tensor.dtype == "bool" else bound_of(task, workload, tensor)
    if distribution == PATCHWORK_BEATS:
        return values if bound is None else store(indices_in_beats(len(values), source, bound=bound), tensor.dtype)
    if distribution == ENDS[0] and tensor.dtype == "bool" and PATCHWORK_KEPT in task.distributions:
        return values  # a row without a true element has no answer
    number = 0 if distribution == ENDS[0] else (bound or 2) - 1
    last = (values.numel() - 1) // row * row
    values[:row] = values[last:] = number
    return values


def _has_rows(count: int, row: int) -> bool:
    return count >= 4 * row and count % row == 0


def _mix_rows(values: Array, source: InputSource, *, draw: Callable[[str, int], Array]) -> None:
    """Make some rows normal ones, the first of them more often: no sample tells that numbers do not cancel elsewhere.

    In most draws of many rows a few stay, which a look at each seventh row misses as often as not. They are not fewer:
    what one row may be off by is measured on all that stay.
    """
    rows, width = values.shape
    share = source.uniform(0.25, 0.75, 1)
    chosen = source.uniform(0.0, 1.0, rows) < share
    chosen[:1] |= source.uniform(0.0, 1.0, 1) < share
    if rows >= _MANY_ROWS and source.uniform(0.0, 1.0, 1) < _FEW_SHARE:
        chosen[:] = True
        chosen[source.integers(0, rows, _FEW_ROWS)] = False
    places = chosen.nonzero()[:, 0]
    if len(places):
        values[places] = draw("normal", len(places) * width).view(-1, width)


def _patched(task: Task, workload: Workload, tensor: Tensor, rng: np.random.Generator) -> bool:
    """Say whether a tensor is drawn as a patchwork: where all are, results of all sizes hide each other's errors."""
    drawn = (each for each in task.signature.inputs if each.generator is None)
    largest = max(drawn, key=lambda each: math.prod(shape_of(task, each, workload)))
    return tensor == largest or rng.random() < _PATCHED_SHARE


def shape_of(task: Task, tensor: Tensor, workload: Workload) -> tuple[int, ...]:
    """Return a tensor's shape on a workload. Raises `TaskError` where an extent is below 1."""
    try:
        shape = tensor.shape_at(workload.sizes)
        tensor.strides_at(workload.sizes)
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


def secret_source(rng: np.random.Generator, device: str) -> InputSource:
    """Return random numbers in bulk on a device, seeded by the judge's secret."""
    return InputSource(secret_generator(rng, device), torch.float32)


def _floats(distribution: str, count: int, row: int, source: InputSource, *, narrow: bool) -> Array:
    if distribution == "integers01":
        return source.integers(0, 2, count, dtype=source.real)
    if distribution == "wide":
        return source.magnitudes(*((-3.0, 2.0) if narrow else (-4.0, 4.0)), count)
    if distribution == "needles":
        low, high = (0.9, 1.8) if narrow else (1.0, 3.0)
        return source.needles(count, row, lambda size: source.magnitudes(low, high, size))
    if distribution in SCALED or distribution == TINY:
        return source.normal(count).mul_(SCALED.get(distribution, _TINY))
    if distribution == COARSE:
        return source.normal(count).mul_(_TICKS).round_().div_(_TICKS)
    if distribution == ZEROS:
        return _with_zeros(count, row, source)
    if distribution in _NO_NUMBERS:
        values = source.normal(count)
        for number in _NO_NUMBERS[distribution]:
            # few enough that those of two inputs seldom meet, where a maximum of the others has no number left
            values[source.integers(0, count, 1 + min(count // 256, math.isqrt(count) // 4))] = number
        return values
    if distribution == "offset":
        return source.normal(count).add_(8.0 if narrow else 100.0)
    return source.normal(count).add_(SHIFTED.get(distribution, 0.0))  # a new distribution has a branch above


def _with_zeros(count: int, row: int, source: InputSource) -> Array:
    """Return numbers, half of them 0.0 or -0.0, the others of a row of one sign: a zero is the largest, or least."""
    sign = source.integers(0, 2, -(-count // row)).mul_(2).sub_(1).repeat_interleave(row)[:count]
    values = source.normal(count).clamp_(min=0.0).mul_(sign)
    return torch.where(values == 0.0, torch.zeros_like(values).copysign_(source.normal(count)), values)


def _integers(distribution: str, count: int, row: int, source: InputSource, *, bound: int | None) -> Array:
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
    return source.integers(-8, 9, count).add_(100 if distribution == "offset" else 0)


def _whole_range(distribution: str, count: int, row: int, source: InputSource, *, dtype: torch.dtype) -> Array:
    """Return integers that use all of a narrow type."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max

    def ends(size: int, *, least: int = low) -> Array:
        return source.integers(0, 2, size).mul_(high - least).add_(least)

    if distribution in ("integers01", "offset"):
        return _integers(distribution, count, row, source, bound=None)
    if distribution == "needles":
        return source.needles(count, row, partial(ends, least=low or 1))
    if distribution == "wide":
        values = source.magnitudes(0.0, math.log10(high), count).round_().long()
        values = values if low else values.abs()
        return torch.where(source.uniform(0.0, 1.0, count) < _EXTREME_SHARE, ends(count), values)
    return source.integers(low, high + 1, count)


def _extremes(count: int, row: int, source: InputSource, *, dtype: torch.dtype) -> Array:
    """Return integers of all bits; rows are of any numbers, far below zero, far above it, or of one end alone.

    In a third of all draws every number is the same end: then sums and products of few are as large as they can be.
    """
    low, high, rows = torch.iinfo(dtype).min, torch.iinfo(dtype).max, -(-count // row)
    kind, upper = source.integers(0, 4, rows), source.integers(0, 2, rows)
    if not source.integers(0, 3, 1):
        kind[:], upper = 3, upper[:1].expand(rows)
    kind, upper = (each.repeat_interleave(row)[:count] for each in (kind, upper))
    values, far = source.integers(low, high, count), high // 2
    for number, others in (
        (1, source.integers(low, low + far, count)),
        (2, source.integers(high - far, high, count)),
        (3, torch.where(upper == 1, high, low)),
    ):
        values = torch.where(kind == number, others, values)
    return values


def _bounded(distribution: str, count: int, row: int, source: InputSource, *, bound: int) -> Array:
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
    most = torch.iinfo(torch_dtype(tensor.dtype)).max + 1
    if not 1 <= bound <= most:
        raise TaskError(
            f"task {task.name!r}: {tensor.name!r} would have to stay below {bound}; it must be at least 1, "
            f"and at most {most} for {tensor.dtype}"
        )
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

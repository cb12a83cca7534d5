"""Inputs for checks and timed calls: five distributions, hidden shapes, content that never repeats; and references.

NumPy has no bfloat16: such tensors travel as uint16 bit patterns, everywhere in the evaluator.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.task import DISTRIBUTIONS, Role, Task, Tensor, Workload, WorkloadSet

Array = np.ndarray[Any, np.dtype[Any]]
Poison = np.uint32 | np.uint64

_NARROW_RANGE = ("float16",)
"""Dtypes whose largest number (65504) the ordinary magnitudes would overflow after one product."""
_POOL_EXTRA = 1 << 16
"""Least number of windows a pool offers; twice what a worker uses before the pool is drawn anew."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return how a task dtype is stored; bfloat16 is stored as uint16."""
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


def is_float(dtype: str) -> bool:
    """Say whether a task dtype is a floating-point one."""
    return "float" in dtype


def store(values: Array, dtype: str) -> Array:
    """Round numbers to a task dtype (to nearest even); bfloat16 comes back as bit patterns."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != "bfloat16":
            return np.asarray(values, dtype=numpy_dtype(dtype), order="C")
        single = np.asarray(values, dtype=np.float32, order="C")
    bits = single.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def widen(stored: Array, dtype: str) -> Array:
    """Return the numbers of a stored tensor: float64 for every floating-point dtype, integers as they are."""
    if dtype == "bfloat16":
        return np.asarray(np.asarray(stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64))
    return stored.astype(np.float64) if is_float(dtype) else stored


def single(stored: Array, dtype: str) -> Array:
    """Return the numbers of a floating-point tensor as a flat float32 copy (float64 for float64), quickly."""
    if dtype == "bfloat16":
        return np.asarray((stored.reshape(-1).astype(np.uint32) << np.uint32(16)).view(np.float32))
    return stored.reshape(-1).astype(np.float64 if dtype == "float64" else np.float32)


def draw(task: Task, workload: Workload, distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Return fresh content for every input and in/out tensor, by name.

    normal is N(0,1); offset N(100,1), where differences cancel; wide log-uniform magnitudes 1e-4..1e4 with a sign;
    integers01 holds 0 and 1; needles zeros with one value of magnitude 10..1000 per row and 1/256 more, so that the
    mass sits in places nobody can guess. float16 gets smaller magnitudes. Integer tensors beside floating-point ones
    are taken for indices and stay below the extents of those (below the ones they do not share, where there are
    such: the columns, for one label per row); alone they are signed numbers up to 1000.

    Raises:
        TaskError: the distribution is unknown or a shape has an extent below 1.
    """
    return {
        tensor.name: _content(task, workload, tensor, distribution, rng).reshape(shape_of(task, tensor, workload))
        for tensor in task.signature.inputs
    }


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


def _content(task: Task, workload: Workload, tensor: Tensor, distribution: str, rng: np.random.Generator) -> Array:
    shape = shape_of(task, tensor, workload)
    return _values(task, workload, tensor, distribution, rng, count=math.prod(shape))


def _values(
    task: Task, workload: Workload, tensor: Tensor, distribution: str, rng: np.random.Generator, *, count: int
) -> Array:
    if distribution not in DISTRIBUTIONS:
        raise TaskError(f"unknown distribution {distribution!r}; known: {', '.join(DISTRIBUTIONS)}")
    row = shape_of(task, tensor, workload)[-1] if tensor.shape else 1
    if is_float(tensor.dtype):
        return store(_floats(distribution, count, row, rng, narrow=tensor.dtype in _NARROW_RANGE), tensor.dtype)
    return store(_integers(distribution, count, row, rng, bound=_index_bound(task, workload, tensor)), tensor.dtype)


def _floats(distribution: str, count: int, row: int, rng: np.random.Generator, *, narrow: bool) -> Array:
    if distribution == "integers01":
        return rng.integers(0, 2, count, dtype=np.int8).astype(np.float32)
    if distribution == "wide":
        low, high = (-3.0, 2.0) if narrow else (-4.0, 4.0)
        return _signed(np.float32(10.0) ** rng.uniform(low, high, count), rng)
    if distribution == "needles":
        low, high = (0.9, 1.8) if narrow else (1.0, 3.0)
        return _needles(count, row, rng, lambda size: _signed(10.0 ** rng.uniform(low, high, size), rng))
    centre = 0.0 if distribution == "normal" else (8.0 if narrow else 100.0)
    return rng.standard_normal(count, dtype=np.float32) + np.float32(centre)


def _integers(distribution: str, count: int, row: int, rng: np.random.Generator, *, bound: int | None) -> Array:
    if bound is not None:  # an index or a class label: any other value may be out of range
        values = rng.integers(0, min(bound, 2) if distribution == "integers01" else bound, count)
        values[int(rng.integers(count))] = values.max() if distribution == "integers01" else bound - 1
        return values
    if distribution == "integers01":
        return rng.integers(0, 2, count)
    if distribution == "wide":
        return np.rint(_signed(10.0 ** rng.uniform(0, 3, count), rng))
    if distribution == "needles":
        return _needles(count, row, rng, lambda size: rng.integers(10, 1000, size).astype(np.float64))
    return rng.integers(-8, 9, count) + (0 if distribution == "normal" else 100)


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


def _signed(magnitudes: Array, rng: np.random.Generator) -> Array:
    return np.where(rng.integers(0, 2, magnitudes.size, dtype=np.int8) == 0, magnitudes, -magnitudes)


def _needles(count: int, row: int, rng: np.random.Generator, make: Callable[[int], Array]) -> Array:
    values = np.zeros(count)
    starts = np.arange(0, count, row)
    more = rng.integers(0, count, count // 256)
    places = np.concatenate([np.minimum(starts + rng.integers(0, row, starts.size), count - 1), more])
    values[places] = make(places.size)
    return values


def probe_workloads(task_workload_set: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return hidden shapes drawn from the ranges of the set: `probes` of them, at least two.

    The first has every dimension at its minimum, the second every dimension odd and in the upper half of its range;
    the others mix primes, neighbours of powers of two, ends of ranges and plain draws. Numbers of the first search
    workload that have no range (an epsilon) are kept.
    """
    base = task_workload_set.search[0].dims
    ranges = task_workload_set.probe
    chosen: list[dict[str, int]] = [
        {name: low for name, (low, _) in ranges.items()},
        {name: _odd((low + high + 1) // 2, high, rng) for name, (low, high) in ranges.items()},
    ]
    while len(chosen) < task_workload_set.probes:
        chosen.append({name: _awkward(low, high, rng) for name, (low, high) in ranges.items()})
    return tuple(Workload(f"probe-{index}", {**base, **dims}) for index, dims in enumerate(chosen))


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


class FreshInputs:
    """Fills input buffers with content that was not seen before, at the speed of a copy.

    Every tensor has a pool of random numbers longer than itself; a fill takes a window at a random offset that was
    not used before, and scales float32 and float64 content by a random factor near 1 on the way. So neither a cache
    keyed by addresses nor one keyed by sampled elements ever hits, and no call's input can be foretold from the
    calls before it. The content follows the workload's own distribution. One instance per worker.
    """

    def __init__(self, task: Task, workload: Workload, rng: np.random.Generator) -> None:
        self._task = task
        self._workload = workload
        self._rng = rng
        self._tensors = {tensor.name: tensor for tensor in task.signature.inputs}
        self._pools: dict[str, Array] = {}
        self._used: dict[str, set[int]] = {}
        for name in self._tensors:
            self._renew(name)

    def fill(self, views: Mapping[str, Array]) -> None:
        """Overwrite contiguous arrays, one per input and in/out tensor by name, with new content."""
        for name, view in views.items():
            flat = view.reshape(-1)
            if not np.shares_memory(flat, view):
                raise ValueError(f"the view of {name!r} must be contiguous")
            start = self._offset(name, flat.size)
            window = self._pools[name][start : start + flat.size]
            if self._scales(self._tensors[name].dtype):
                np.multiply(window, window.dtype.type(self._rng.uniform(0.875, 1.125)), out=flat)
            else:
                np.copyto(flat, window)

    def _scales(self, dtype: str) -> bool:
        return dtype in ("float32", "float64") and self._workload.distribution != "integers01"

    def _offset(self, name: str, size: int) -> int:
        windows = self._pools[name].size - size + 1
        if 2 * len(self._used[name]) >= windows:
            self._renew(name)
        used = self._used[name]
        start = int(self._rng.integers(windows))
        while start in used:
            start = int(self._rng.integers(windows))
        used.add(start)
        return start

    def _renew(self, name: str) -> None:
        tensor = self._tensors[name]
        size = math.prod(shape_of(self._task, tensor, self._workload))
        self._pools[name] = _values(
            self._task,
            self._workload,
            tensor,
            self._workload.distribution,
            self._rng,
            count=size + max(size // 4, _POOL_EXTRA),
        )
        self._used[name] = set()


def result_tensors(task: Task) -> tuple[Tensor, ...]:
    """Return the tensors a kernel writes: in/out ones, then outputs; the order of a reference's results."""
    return (*(tensor for tensor in task.signature.inputs if tensor.role is Role.INOUT), *task.signature.outputs)


def fill_poison(array: Array, *, poison: Poison) -> None:
    """Overwrite a contiguous array with a repeated bit pattern, whatever its dtype."""
    bits = array.reshape(-1).view(f"u{array.itemsize}")
    bits[:] = _pattern(bits, poison)


def _pattern(bits: Array, poison: Poison) -> Array:
    words = np.array([poison, poison]).view(bits.dtype)
    return np.tile(words, -(-bits.size // words.size))[: bits.size]


def is_poison(array: Array, poison: Poison) -> Array:
    """Mark the elements of an array that hold the bit pattern of `fill_poison`."""
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
    same: Array = (bits == _pattern(bits, poison)).reshape(array.shape)
    return same


# ---------------------------------------------------------------------------------------------------- references


def native_answer(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the reference's results in the dtypes of the task, as stored; one thread, TF32 off.

    Raises:
        TaskError: the reference raised, or its results do not fit the signature in count, shape or dtype.
    """
    given = {tensor.name: _to_torch(inputs[tensor.name], tensor.dtype) for tensor in task.signature.inputs}
    return _call(task, workload, given, high=False)


def high_answer(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the reference's results on fp64 copies of the inputs; integer tensors keep their dtype.

    `inputs` may be stored tensors or, where an input is floating-point, fp64 numbers.

    Raises:
        TaskError: as `native_answer`.
    """
    given = {}
    for tensor in task.signature.inputs:
        values = inputs[tensor.name]
        stored = values.dtype != np.float64 and is_float(tensor.dtype)
        given[tensor.name] = torch.from_numpy(np.array(widen(values, tensor.dtype) if stored else values))
    return _call(task, workload, given, high=True)


def _call(task: Task, workload: Workload, given: Mapping[str, torch.Tensor], *, high: bool) -> tuple[Array, ...]:
    scalars = {}
    for scalar in task.signature.scalars:
        value = workload.dims[scalar.name]
        # the kernel gets the rounded number, so the reference must, too
        scalars[scalar.name] = float(np.float32(value)) if scalar.dtype == "float32" else value
    try:
        with _strict_torch():
            results = task.reference(**given, **scalars)
    except Exception as error:  # a user's reference may raise anything; it becomes one clear message
        raise TaskError(
            f"task {task.name!r}: the reference raised {type(error).__name__}: {error} (it is called with "
            f"{'fp64 copies of ' if high else ''}its tensors as keywords: {', '.join([*given, *scalars])}; with "
            f"{dict(workload.dims)}). If only some inputs are allowed, name those distributions in Task.distributions"
        ) from error
    if isinstance(results, torch.Tensor):
        results = (results,)
    wanted = result_tensors(task)
    if not isinstance(results, (tuple, list)) or len(results) != len(wanted):
        count = len(results) if isinstance(results, (tuple, list)) else type(results).__name__
        raise TaskError(
            f"task {task.name!r}: the reference must return {len(wanted)} tensors "
            f"({', '.join(tensor.name for tensor in wanted)}), but returned {count}"
        )
    return tuple(
        _checked(task, tensor, result, workload=workload, high=high)
        for tensor, result in zip(wanted, results, strict=True)
    )


def _checked(task: Task, tensor: Tensor, result: object, *, workload: Workload, high: bool) -> Array:
    where = f"task {task.name!r}: the reference's result {tensor.name!r}"
    if not isinstance(result, torch.Tensor):
        raise TaskError(f"{where} must be a tensor, not {type(result).__name__}")
    shape = shape_of(task, tensor, workload)
    if tuple(result.shape) != shape:
        raise TaskError(f"{where} has shape {tuple(result.shape)}; the signature says {shape} ({tensor.shape})")
    wanted = "float64" if high and is_float(tensor.dtype) else tensor.dtype
    found = str(result.dtype).removeprefix("torch.")
    if found != wanted:
        pinned = high and is_float(tensor.dtype)
        hint = "do not cast to a fixed float type in it" if pinned else "cast the result in it"
        raise TaskError(
            f"{where} is {found} where {wanted} is needed{' (called with fp64 inputs)' if pinned else ''}: {hint}"
        )
    plain = result.detach().cpu().contiguous()
    if found == "bfloat16":
        return np.array(plain.view(torch.int16).numpy()).view(np.uint16)
    return np.array(plain.numpy())


def _to_torch(stored: Array, dtype: str) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(np.array(stored).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(stored))  # a copy, for the reference may work in place


@contextmanager
def _strict_torch() -> Iterator[None]:
    """Run on one thread and without reduced-precision products, whatever the process had set."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)

"""Workloads around the user's sizes: search, holdout, and the range of hidden probes."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import Layout, shapes_at
from evokernel.scaffold.operation.rounding_growth import rounding_growth
from evokernel.scaffold.operation.trial import in_one_thread, outputs_of
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.result_growth import highest_sizes
from evokernel.source.expressions import evaluate

_LEAST = (1, 2, 3, 4, 8, 16, 32)
_LARGE_LEAST = 8
"""Least size of all dimensions that need not be that of each."""
_MOST_GROWTH = 1e4
"""Growth of the roundings of single steps from which results of two honest kernels are no more alike."""
_SEARCH = ((1.0, 1.0), (2.0, 0.5), (0.5, 2.0))
_NEAR = ((0.76, 0.77), (1.3, 0.6), (0.4, 1.45))
_FAR = (3.1, 0.24)
_MOST_DOUBLINGS = 40
_TIMES_THE_LEAST, _MOST_PROBE_FLOPS = 4, 400_000_000
"""Operations of a hidden workload over those at the least sizes, where these alone are many, and the most of such."""
_PROBE_ELEMENTS = 1_000_000
"""Elements of a hidden workload: each is computed in fp64, and several times."""
_ANY_SIZE = 1 << 62
_TRIED = 8
"""Times the example's sizes, and those of hidden workloads, at which the growth of results is tried."""

Dims = dict[str, int]


@dataclass(frozen=True, slots=True)
class WorkloadLimits:
    """Limits of the workloads of a device class, so that a search tries many candidates."""

    most_flops: int
    """Of one call."""
    most_elements: int
    """Of all tensors together, those of the fp64 reference included."""
    least_us: float
    """Time below which planned sizes grow, in microseconds by `bytes_per_us` and `flops_per_us`; 0 for any."""
    most_us: float
    """Time above which planned sizes shrink, in microseconds."""
    own_us: float
    """Time up to which the user's own sizes stay as they are, in microseconds."""
    bytes_per_us: float
    """Memory traffic that a good kernel reaches."""
    flops_per_us: float
    """Operations that a good kernel reaches."""
    probe_flops: int
    """Operations of a hidden workload."""
    probe_highest: int
    """Highest size of a hidden workload."""
    holdout: tuple[tuple[float, float], ...]
    """Factors on the sizes of held-out workloads."""


_ANY = float("inf")
LIMITS: Mapping[str, WorkloadLimits] = {
    "cpu": WorkloadLimits(400_000_000, 8_000_000, 0.0, _ANY, _ANY, 1.0, 1.0, 20_000_000, 131, _NEAR),
    # the rates are those of an H100 in bf16; other GPUs are within a small factor, and so is fp32 on tensor cores
    "cuda": WorkloadLimits(
        10**15, 400_000_000, 50.0, 500.0, 5_000.0, 2.5e6, 4e8, 200_000_000, 263, (*_NEAR, _FAR)
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkloadCosts:
    """Costs of one call at given dimensions."""

    flops: Callable[[Mapping[str, int]], int]
    """Floating-point operations."""
    moved: Callable[[Mapping[str, int]], int]
    """Least traffic in bytes."""
    elements: Callable[[Mapping[str, int]], int]
    """Elements of all tensors that are held at once."""

    def us(self, dims: Mapping[str, int], limits: WorkloadLimits) -> float:
        """Return the time of a good kernel, in microseconds."""
        return max(self.moved(dims) / limits.bytes_per_us, self.flops(dims) / limits.flops_per_us)


@dataclass(frozen=True)
class WorkloadDraft:
    """Workloads of a new task on one device class."""

    search: tuple[Dims, ...]
    """Dimensions of each."""
    weights: tuple[float, ...]
    """Of the search workloads."""
    holdout: tuple[Dims, ...]
    """Dimensions of each."""
    probe: Mapping[str, tuple[int, int]]
    """Lowest and highest value by dimension."""
    cut: tuple[Dims, ...]
    """The user's own sizes that were too large."""
    highest: Mapping[str, int] = field(default_factory=dict)
    """Sizes, by dimension, above which results grow beyond what fp32 holds, where there are such."""
    dtype: str = ""
    """Replaces that of the signature's floating-point tensors; empty to keep it."""


def plan_workloads(
    subject: UserOperation,
    layout: Layout,
    cost: WorkloadCosts,
    *,
    limits: WorkloadLimits,
    own: Sequence[Dims],
    counts: Sequence[int] = (),
    missing: Callable[[Dims], int] = lambda _: 0,
    scales: Mapping[str, float] | None = None,
) -> WorkloadDraft:
    """Return workloads that the reference runs on: the user's own sizes, then some around the first of them.

    Own sizes above the limits are halved until they fit. `counts` are weights of the first of them; without any the
    first size counts twice. `missing` counts parts of tensors that sizes are too small for, `scales` are factors on
    the numbers of inputs, by name. Sizes are planned where results fit into fp32, if they grow with a size beyond that.
    """
    least = _with_all_parts(least_sizes(subject, layout), own[0], missing)
    weights_alone = cost.elements(least)  # smaller sizes do not make them fewer
    count = cost.elements
    cost = replace(cost, elements=lambda dims: count(dims) - weights_alone)
    kept = [_cut(dims, cost, limits, least=least, most_us=limits.own_us) for dims in own]
    base = _cut(kept[0], cost, limits, least=least, most_us=limits.most_us)
    most = {name: _TRIED * max(size, limits.probe_highest) for name, size in base.items()}
    is_cheap = partial(_is_cheap, cost, flops=LIMITS["cpu"].probe_flops)
    highest = highest_sizes(subject, layout, scales or {}, least=least, most=most, is_cheap=is_cheap)
    base = _grown({name: min(size, highest.get(name, size)) for name, size in base.items()}, cost, limits, highest)
    planned = _scaled(subject, layout, base, _SEARCH, odd=False, least=least, highest=highest)
    search = _distinct([*kept, *planned])[: max(3, len(kept) + 1)]
    called = zip(kept, counts or (2,), strict=False)
    weighed = [(dims, float(count)) for dims, count in called] if len(search) > 1 else []
    weights = tuple(sum(count for dims, count in weighed if dims == each) or 1.0 for each in search)
    holdout = [
        dims
        for dims in _scaled(subject, layout, base, limits.holdout, odd=True, least=least, highest=highest)
        if dims not in search and cost.elements(dims) <= 2 * limits.most_elements
    ]
    span = _probe_span(cost, limits, least=least)
    probe = {
        name: (low, max(low, min(min(low + span, 2 * base[name] + 1) | 1, highest.get(name, _ANY_SIZE))))
        for name, low in least.items()
    }
    cut = tuple(dims for dims, made in zip(own, kept, strict=True) if dims != made)
    return WorkloadDraft(tuple(search), weights, tuple(holdout) or (base,), probe, cut, highest)


def dims_of(layout: Layout, shapes: Mapping[str, Sequence[int]]) -> Dims:
    """Return the dimensions for which inputs have these shapes; those that no shape decides are the example's.

    Raises `TaskError` if no dimensions give these shapes.
    """
    found = dict(layout.example)
    for dimension in layout.dimensions:
        axes = zip(dimension.axes, dimension.units, strict=True)
        counts = {shapes[name][at] // unit for (name, at), unit in axes if name in shapes and at < len(shapes[name])}
        if counts:
            found[dimension.name] = counts.pop()
    for name, shape in shapes.items():
        if name not in layout.inputs:
            raise TaskError(f"--shapes names {name!r}; the tensors are {', '.join(layout.inputs)}")
        made = shapes_at(layout, found)[name]
        if tuple(shape) != made:
            rule = "x".join(map(str, layout.inputs[name]))
            raise TaskError(f"--shapes: {name} is {'x'.join(map(str, shape))}, which does not fit {rule} with {found}")
    return found


def _distinct(all_dims: Sequence[Dims]) -> list[Dims]:
    return [dims for place, dims in enumerate(all_dims) if dims not in all_dims[:place]]


def _cut(dims: Dims, cost: WorkloadCosts, limits: WorkloadLimits, *, least: Dims, most_us: float) -> Dims:
    while (
        cost.flops(dims) > limits.most_flops
        or cost.elements(dims) > limits.most_elements
        or cost.us(dims, limits) > most_us
    ):
        largest = max(dims, key=lambda name: dims[name] if dims[name] > 2 * least[name] else 0, default="")
        if not largest or dims[largest] <= 2 * least[largest]:
            break
        dims = {**dims, largest: dims[largest] // 2}
    return dims


def _grown(dims: Dims, cost: WorkloadCosts, limits: WorkloadLimits, highest: Mapping[str, int]) -> Dims:
    """Return the sizes with the first two doubled in turn until a call takes long enough, none above the highest."""
    for _, name in zip(range(_MOST_DOUBLINGS), cycle(list(dims)[:2]), strict=False):
        larger = {**dims, name: 2 * dims[name]}
        if larger[name] > highest.get(name, _ANY_SIZE):
            continue
        if cost.us(dims, limits) >= limits.least_us or cost.elements(larger) > limits.most_elements:
            break
        dims = larger
    return dims


def _scaled(
    subject: UserOperation,
    layout: Layout,
    base: Dims,
    factors: Sequence[tuple[float, float]],
    *,
    odd: bool,
    least: Dims,
    highest: Mapping[str, int],
) -> list[Dims]:
    """Return the base with dimensions scaled by the factors in turn, none above the highest; distinct ones that run."""
    made: list[Dims] = []
    for pair in factors:
        dims = {
            name: min(
                max(min(least[name], value), int(value * pair[place % 2]) | int(odd)), highest.get(name, _ANY_SIZE)
            )
            for place, (name, value) in enumerate(base.items())
        }
        if dims not in made and _finite(subject, layout, dims, data=False):
            made.append(dims)
    return made


@in_one_thread()
def least_sizes(subject: UserOperation, layout: Layout) -> Dims:
    """Return the smallest sizes with finite results, or with any results where none are finite.

    They are one number for all dimensions where there is one, else the least of each beside the example's others. A
    large one, as of an image that is halved in layer after layer, is that of a few dimensions alone: the others, such
    as the number of images, are as small as they can be. Modules whose results are mostly rounding at such sizes get
    larger ones.
    """
    found = _least_finite(subject, layout)
    if not subject.parameters or _steady(subject, layout, found):
        return found
    larger = ({name: max(size, least) for name, size in found.items()} for least in _LEAST if least >= _LARGE_LEAST)
    return next((dims for dims in larger if _steady(subject, layout, dims)), found)


def _least_finite(subject: UserOperation, layout: Layout) -> Dims:
    for data in (True, False):
        for least in _LEAST:
            if _finite(subject, layout, dims := dict.fromkeys(layout.example, least), data=data):
                return dims if least < _LARGE_LEAST else _each_less(subject, layout, dims, data=data)
    found = dict(layout.example)
    for name, value in layout.example.items():  # as where a number that is fixed names a place
        found[name] = min(
            value, 1 + bisect_left(range(1, value), True, key=partial(_runs, subject, layout, found, name))
        )
    return found if _finite(subject, layout, found, data=False) else dict(layout.example)


def _with_all_parts(least: Dims, most: Dims, missing: Callable[[Dims], int]) -> Dims:
    """Return sizes in which no part is missing: each is raised, in turn, as far as that helps.

    They are as they were where some part is missing all the same.
    """
    found = dict(least)
    for name, low in least.items():

        def helps(value: int, name: str = name) -> bool:
            return missing({**found, name: value}) == missing({**found, name: max(most[name], found[name])})

        if not helps(low):
            found[name] = low + bisect_left(range(low, most[name]), True, key=helps)
    return least if missing(found) else found


def _each_less(subject: UserOperation, layout: Layout, dims: Dims, *, data: bool) -> Dims:
    """Return sizes with each dimension in turn as small as it can be beside the others."""
    for name, value in dims.items():
        tried = ({**dims, name: least} for least in _LEAST if least < value)
        dims = next((each for each in tried if _finite(subject, layout, each, data=data)), dims)
    return dims


def _steady(subject: UserOperation, layout: Layout, dims: Dims) -> bool:
    """Say whether roundings stay small at these sizes, and at those little larger.

    Batch norms of a few numbers multiply them in layer after layer, so that no two honest kernels are alike.
    """
    wide, generator = subject.with_floats("float64"), torch.Generator().manual_seed(0)
    for each in ({name: size + more for name, size in dims.items()} for more in range(3)):
        try:
            inputs = wide.empty(shapes_at(layout, each))
            for name, tensor in inputs.items():
                scale = tensor[0].numel() ** -0.5 if name in subject.parameters.values() and tensor.ndim > 1 else 1.0
                numbers = torch.randn(tensor.shape, generator=generator) if tensor.is_floating_point() else 0
                tensor.copy_(scale * torch.as_tensor(numbers))
            if rounding_growth(wide.call, inputs) > _MOST_GROWTH:
                return False
        except Exception:  # noqa: BLE001 - a user's function may raise anything, and may take no fp64
            continue
    return True


def _runs(subject: UserOperation, layout: Layout, dims: Dims, name: str, value: int) -> bool:
    return _finite(subject, layout, {**dims, name: value}, data=False)


def _finite(subject: UserOperation, layout: Layout, dims: Mapping[str, int], *, data: bool) -> bool:
    shapes = shapes_at(layout, dims)
    # another shape is that of the larger of two sizes, say
    due = [tuple(evaluate(extent, dims) for extent in shape) for shape in layout.outputs]
    try:
        if not data:
            made = outputs_of(subject, shapes)
            return [tuple(item.shape) for item in made] == due and all(item.numel() > 0 for item in made)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            inputs = subject.empty(shapes)
            for tensor in inputs.values():
                numbers = torch.randn(tensor.shape, generator=generator) if tensor.is_floating_point() else 0
                tensor.copy_(torch.as_tensor(numbers))
            result = subject.call(inputs)
    except Exception:  # noqa: BLE001 - a user's function may raise anything; then it does not run at this size
        return False
    flat = result if isinstance(result, (tuple, list)) else (result,)
    shown = [tuple(item.shape) for item in flat] == due and all(item.numel() > 0 for item in flat)
    return shown and all(bool(torch.isfinite(item.double()).all()) for item in flat)


def _probe_span(cost: WorkloadCosts, limits: WorkloadLimits, *, least: Dims) -> int:
    """Return how far the probes of each dimension go above its least size: cheap where all of them go so far."""
    most_flops = max(limits.probe_flops, min(_TIMES_THE_LEAST * cost.flops(least), _MOST_PROBE_FLOPS))

    def is_cheap(span: int) -> bool:
        return _is_cheap(cost, {name: low + span for name, low in least.items()}, flops=most_flops)

    span = limits.probe_highest - 1
    while span > 1 and not is_cheap(span):
        span = span * 3 // 4
    return span if is_cheap(span) else 0


def _is_cheap(cost: WorkloadCosts, dims: Dims, *, flops: int) -> bool:
    return cost.flops(dims) <= flops and cost.elements(dims) <= _PROBE_ELEMENTS

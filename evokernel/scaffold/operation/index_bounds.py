"""Ranges of integer inputs: the size that indices stay below, found by trial, or a number."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise, product
from math import isfinite

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import (
    Layout,
    shapes_at,
    with_a_pair_as_one,
    with_equal_sizes_as_one,
    with_one_size_fixed,
)
from evokernel.scaffold.operation.module_buffers import is_packed
from evokernel.scaffold.operation.trial import in_one_thread, reads_integers, runs
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.source.expressions import evaluate

_SIZE, _TINY, _MOST_UNEVEN = 19, 3, 5
"""Small sizes beside a far smaller one, and the most dimensions for which each is tried so."""
_FEWEST_IN_ORDER = 8
"""Numbers of an input that are in order by chance once in thousands of times, and of one sign once in a hundred."""
_NEARLY_0 = 0.01
"""Share of the largest number of an input below which its smallest one may as well be 0."""
_SMALL = (11, 13, 17, 19, 23, 7, 5, 29, 31, 3, 37, 41, 43, 47, 53, 59)


@in_one_thread()
def tied_by_indices(subject: UserOperation, layout: Layout) -> Layout:
    """Return the layout with equal sizes of the example as one where indices fit only some of the sizes otherwise.

    Two caches that one position indexes are as long as each other, which shapes alone do not show. A size that computed
    indices fit only as it is, as in a table of biases, stays so. Raises `TaskError` as `derive_layout`.
    """
    if not reads_integers(subject):  # what it computes with is no question of values
        return layout
    apart, layout = layout, _tied_by_ranks(subject, _tied(subject, layout))
    if not _fits(subject, layout, uneven=True):
        fixed = chain(with_one_size_fixed(subject, layout), with_one_size_fixed(subject, apart))
        useful = (each for each in fixed if each.dimensions or each.stepped)
        return next((each for each in useful if _fits(subject, each, uneven=True)), layout)
    return layout


def _fits(subject: UserOperation, layout: Layout, *, uneven: bool = False) -> bool:
    """Say whether the reference runs on small inputs, where shapes allow that; if `uneven`, with each size far smaller.

    A reference that shapes alone refuse at some size is no question of values.
    """
    tried = _small(layout)
    if uneven:
        few = len(layout.example) <= _MOST_UNEVEN
        tried += [{**dict.fromkeys(layout.example, _SIZE), name: _TINY} for name in layout.example if few]
        tried = [dims for dims in tried if runs(subject, shapes_at(layout, dims))]
    return all(_accepts(subject, layout, dims, "", 0) for dims in tried)


def _small(layout: Layout) -> list[dict[str, int]]:
    """Return small sizes, and others of which each two are in the other order."""
    sizes = _SMALL[: len(layout.example)]
    back = dict(zip(sorted(sizes), sorted(sizes, reverse=True), strict=True))
    orders = dict.fromkeys((sizes, tuple(back[size] for size in sizes)))
    return [dict(zip(layout.example, each, strict=True)) for each in orders]


def _tied(subject: UserOperation, layout: Layout) -> Layout:
    indices = [
        name for name, each in subject.inputs.items() if not each.is_floating_point() and each.element_size() > 1
    ]
    tried = _small(layout)
    if not (indices or _fits(subject, layout)) or not all(  # it sorts for them, say
        _accepts(subject, layout, dims, name, 0) for name in indices for dims in tried
    ):
        one_pair = _with_a_pair_as_one(subject, layout, lambda each: _fits(subject, each))
        return _tied(subject, one_pair) if one_pair else with_equal_sizes_as_one(subject, layout)
    for name in indices:
        if len(sizes := {_indexed(subject, layout, name, dims) for dims in tried}) > 1:
            joined = with_equal_sizes_as_one(subject, layout, sizes)
            return _tied(subject, joined) if joined is not layout else with_equal_sizes_as_one(subject, layout)
    return layout


def _tied_by_ranks(subject: UserOperation, layout: Layout) -> Layout:
    """Return the layout with two equal sizes as one, where the reference runs on numbers that differ only so.

    A row that `topk` names, for example, is looked up in another input.
    """

    def fits(tried: Layout) -> bool:
        return all(_accepts(subject, tried, dims, "", 0, floats=_numbers) for dims in _small(tried))

    return layout if fits(layout) else _with_a_pair_as_one(subject, layout, fits) or layout


def _with_a_pair_as_one(subject: UserOperation, layout: Layout, fits: Callable[[Layout], bool]) -> Layout | None:
    """Return the layout with two equal sizes as one, so that it fits; None where no two do."""
    return next(filter(fits, with_a_pair_as_one(subject, layout)), None)


def _ones(tensor: torch.Tensor) -> None:
    tensor.fill_(1)


def _numbers(tensor: torch.Tensor) -> None:
    tensor.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)))


@in_one_thread()
def find_bounds(subject: UserOperation, layout: Layout) -> dict[str, str | int]:
    """Return what each input of integers stays below, by name; nothing for signed ones.

    An input that raises an error from a size on, and not before, holds indices into that size. Any other range is the
    example's. Bytes take all values, unless the example's stay in the lower half of those above 0; so do integers of a
    module that are all 0 and no indices, as weights are before a model is loaded.
    """
    found: dict[str, str | int] = {}
    ends = {**find_offsets(subject, layout), **find_lengths(subject, layout), **find_begins(subject, layout)}
    for name, tensor in subject.inputs.items():
        if tensor.is_floating_point() or tensor.dtype == torch.bool:
            continue
        low, high = int(tensor.min()), int(tensor.max())
        if _is_placeholder(subject, name) and (tensor.element_size() == 1 or not _indexes(subject, layout, name)):
            continue
        if name in ends:
            found[name] = f"{ends[name]} + 1"
        elif tensor.element_size() == 1:
            if low >= 0 and 2 * (high + 1) <= torch.iinfo(tensor.dtype).max:
                found[name] = high + 1
        elif low >= 0:
            found[name] = _indexed(subject, layout, name, _small(layout)[0]) or high + 1
    return found


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Integers of an input beside floating-point ones that are negative in the example."""

    low: int
    below: str | int
    """A number, or a size of the task."""
    mark: int | None = None
    """A negative number among others that are at least 0, as labels that do not count have; None where all vary."""
    share: float = 0.0
    """Share of the mark in the example."""


@in_one_thread()
def find_signed(subject: UserOperation, layout: Layout) -> dict[str, ValueRange]:
    """Return the ranges of signed integers beside floating-point inputs, by name.

    Such are all bits of a type, as packed numbers have them, the range of the example, or indices with one mark.
    Raises `TaskError` where the reference refuses numbers of that range at some sizes.
    """
    found: dict[str, ValueRange] = {}
    beside_floats = any(each.is_floating_point() for each in subject.inputs.values())
    for name, tensor in subject.inputs.items() if beside_floats else ():
        if tensor.is_floating_point() or tensor.element_size() == 1:
            continue
        low, high = int(tensor.min()), int(tensor.max())
        if _is_placeholder(subject, name) and not _indexes(subject, layout, name):
            low, high = torch.iinfo(tensor.dtype).min, torch.iinfo(tensor.dtype).max
        if low >= 0:
            continue
        if tensor.any() and int(tensor[tensor < 0].max()) == low < 0 <= high:
            size = _indexed(subject, layout, name, _small(layout)[0])
            found[name] = ValueRange(0, size or high + 1, low, round(float((tensor < 0).double().mean()), 3))
        else:
            ends = torch.iinfo(tensor.dtype)
            whole = min(low, -high) < ends.min // 2
            found[name] = ValueRange(*((ends.min, ends.max + 1) if whole else (low, high + 1)))
        made = found[name]
        tried = [
            made.low if made.mark is None else made.mark,
            *([made.below - 1] if isinstance(made.below, int) else []),
        ]
        if not all(_accepts(subject, layout, dims, name, each) for dims in _small(layout) for each in tried):
            raise TaskError(
                f"the integers in {name!r} go from {low} to {high}, which {subject.name} refuses at other sizes. Pass "
                "an example without negative ones, or add an offset in the function"
            )
    return found


def _is_placeholder(subject: UserOperation, name: str) -> bool:
    """Say whether integers of a module are all 0, as those of quantised layers are before a model is loaded."""
    return name in subject.parameters.values() and not subject.inputs[name].any()


def _indexes(subject: UserOperation, layout: Layout, name: str) -> bool:
    return _indexed(subject, layout, name, _small(layout)[0]) is not None


def one_signed(subject: UserOperation) -> dict[str, tuple[float, float]]:
    """Return the ends of the floats of each argument that have one sign in the example: that next to 0, and the other.

    Such are variances, probabilities, and logarithms of decays. An end that is nearly 0 is 0. So are buffers of a
    module: of equal ones, as the variances of a new batch norm are, the ends are half and double.
    """
    found = dict[str, tuple[float, float]]()
    buffers = dict(subject.target.named_buffers()) if subject.construct else {}
    weights = {x for name, x in subject.parameters.items() if name not in buffers}
    for name, tensor in subject.inputs.items():
        valued = tensor.is_floating_point() and not tensor.is_meta  # what was captured has shapes alone
        if valued and name not in weights and tensor.numel() >= _FEWEST_IN_ORDER:
            near, far = sorted((float(tensor.float().min()), float(tensor.float().max())), key=abs)
            if near == far and name in subject.parameters.values():
                near, far = near / 2, far * 2
            if near != far and near * far >= 0 and isfinite(far):
                found[name] = near if abs(near) > _NEARLY_0 * abs(far) else 0.0, far
    return found


def find_offsets(subject: UserOperation, layout: Layout) -> dict[str, str | int]:
    """Return the extent that an input's values lead to, by name, where the example has rising ones from 0 up to one.

    Such are the offsets of a CSR matrix, or of sequences of several lengths in one tensor: random numbers are none, and
    neither are positions that count up one by one, unless some extent is one less than theirs at all sizes.
    """
    found: dict[str, str | int] = {}
    for name, tensor in subject.inputs.items():
        rising = tensor.dtype in (torch.int32, torch.int64) and tensor.ndim == 1 and tensor.numel() > 2
        if not rising or tensor[0] or (tensor.diff() < 0).any():
            continue
        others = [extent for other, shape in layout.inputs.items() if other != name for extent in shape]
        ends = [extent for extent in others if evaluate(extent, layout.example) == tensor[-1]]
        if ends and ((tensor.diff() != 1).any() or _has_one_less(layout, layout.inputs[name][0])):
            found[name] = ends[0]
    return found


def find_lengths(subject: UserOperation, layout: Layout) -> dict[str, str | int]:
    """Return the extent that an input's values add up to, by name, where the reference takes no others.

    Such are the lengths of sequences that lie in one tensor: in the example they add up to an extent, and zeros, which
    all indices may be, are refused at small sizes.
    """
    possible: dict[str, list[str | int]] = {}
    for name, tensor in subject.inputs.items():
        whole = tensor.dtype in (torch.int32, torch.int64) and tensor.ndim == 1 and tensor.numel() > 1
        if not whole or (tensor < 0).any():
            continue
        others = [extent for other, shape in layout.inputs.items() if other != name for extent in shape]
        others += [extent for shape in layout.outputs for extent in shape]  # as `output_size` declares it
        totals = [each for each in dict.fromkeys(others) if 0 < evaluate(each, layout.example) == int(tensor.sum())]
        possible |= {name: totals} if totals else {}

    def fits(lengths: Mapping[str, str | int]) -> bool:
        return _runs(subject, _small_inputs(subject, layout, _small(layout)[0], lengths))

    tried = (dict(zip(possible, totals, strict=True)) for totals in product(*possible.values()))
    found = next(filter(fits, tried), {}) if possible else {}
    return {name: extent for name, extent in found.items() if not fits({**found, name: 0})}


def find_begins(subject: UserOperation, layout: Layout) -> dict[str, str | int]:
    """Return the extent that an input's values go up to, by name, where they say at which row each part begins.

    They rise from 0 on in the example, and the reference refuses others at small sizes, as `F.embedding_bag` does.
    """
    found: dict[str, str | int] = {}
    offsets, dims = find_offsets(subject, layout), _small(layout)[0]
    for name, tensor in subject.inputs.items():
        whole = name not in offsets and tensor.dtype in (torch.int32, torch.int64) and tensor.ndim == 1
        if not whole or tensor.numel() == 1 or tensor[0] or not tensor.any() or (tensor.diff() < 0).any():
            continue
        if not _accepts(subject, layout, dims, name, 0) or _accepts(subject, layout, dims, name, 1):
            continue
        for extent, size in _extents(layout, dims):
            inputs = _small_inputs(subject, layout, dims, find_lengths(subject, layout))
            ends = [torch.linspace(0, size + more, inputs[name].numel()) for more in (0, 1)]
            if [_runs(subject, {**inputs, name: each.to(tensor.dtype)}) for each in ends] == [True, False]:
                found[name] = extent
                break
    return found


def find_segments(subject: UserOperation, layout: Layout, ranges: Mapping[str, str | int]) -> dict[str, bool]:
    """Return the inputs whose numbers are in order in the example, many of them equal, and stay below a size.

    Such are the numbers of segments that rows belong to, and the rows at which parts begin, of which the first must be
    0: True says that. Numbers that are offsets or lengths are none.
    """
    begins = find_begins(subject, layout)
    others = {**find_offsets(subject, layout), **find_lengths(subject, layout)}
    found = []
    for name, tensor in subject.inputs.items():
        whole = name in ranges and name not in others and tensor.dtype in (torch.int32, torch.int64)
        if whole and tensor.ndim == 1 and tensor.numel() >= _FEWEST_IN_ORDER:
            steps = tensor.diff()
            some = bool((steps == 0).any()) and bool((steps > 0).any()) and bool((steps >= 0).all())
            found += [name] * (some and name not in begins)
    return {**dict.fromkeys(found, False), **dict.fromkeys(begins, True)}


def unsorted_offsets(subject: UserOperation, layout: Layout) -> str:
    """Return what to do where integers of the example may be meant as offsets, and are in no order; else nothing."""
    offsets = find_offsets(subject, layout)
    for name, tensor in subject.inputs.items():
        if name in offsets or tensor.dtype not in (torch.int32, torch.int64) or tensor.ndim != 1:
            continue
        last = int(tensor.max())
        others = [shape for other, shape in layout.inputs.items() if other != name]
        if any(evaluate(extent, layout.example) == last for shape in others for extent in shape):
            kind = str(tensor.dtype).removeprefix("torch.")
            return (
                f'. If {name!r} holds offsets into rows, say so: --inputs "{name}: {kind}[{len(tensor)}] sorted < '
                f'{last + 1}" makes some that rise from 0 to {last}, and the task gets a generator of such'
            )
    return ""


def _has_one_less(layout: Layout, extent: str | int) -> bool:
    """Say whether some extent is that of segments between as many offsets."""
    dims = layout.sizes.first
    wanted = evaluate(extent, dims) - 1
    return any(evaluate(each, dims) == wanted for shape in (*layout.inputs.values(), *layout.outputs) for each in shape)


def _indexed(subject: UserOperation, layout: Layout, name: str, dims: Mapping[str, int]) -> str | int | None:
    """Return the extent that an input's values index, or one more where they are lengths up to it, or None."""
    for more in (0, 1):
        for extent, size in _extents(layout, dims):
            last = size + more
            if _accepts(subject, layout, dims, name, last - 1) and not _accepts(subject, layout, dims, name, last):
                return f"{extent} + 1" if more else extent
    return None


def _extents(layout: Layout, dims: Mapping[str, int]) -> Iterator[tuple[str | int, int]]:
    """Yield what indices may stay below, with its size: extents, and products of neighbouring ones, as of pages."""
    shapes = (*layout.inputs.values(), *layout.outputs)
    for extent in dict.fromkeys(extent for shape in shapes for extent in shape):
        yield extent, evaluate(extent, dims)
    for pair in dict.fromkeys(pair for shape in layout.inputs.values() for pair in pairwise(shape)):
        both = " * ".join(f"({each})" if " " in str(each) else str(each) for each in pair)
        yield both, evaluate(both, dims)


def _accepts(
    subject: UserOperation,
    layout: Layout,
    dims: Mapping[str, int],
    name: str,
    value: int,
    *,
    floats: Callable[[torch.Tensor], None] = _ones,
) -> bool:
    """Say whether the reference runs on small inputs with this value throughout one of them."""
    inputs = _small_inputs(subject, layout, dims, find_lengths(subject, layout), floats=floats)
    if name:
        inputs[name].fill_(value)
    return _runs(subject, inputs)


def _small_inputs(
    subject: UserOperation,
    layout: Layout,
    dims: Mapping[str, int],
    lengths: Mapping[str, str | int],
    *,
    floats: Callable[[torch.Tensor], None] = _ones,
) -> dict[str, torch.Tensor]:
    """Return inputs of these sizes: offsets and lengths that fit, other integers 0."""
    inputs = subject.empty(shapes_at(layout, dims))
    offsets = find_offsets(subject, layout)
    for name, tensor in inputs.items():
        if name in offsets:
            tensor.copy_(torch.linspace(0, evaluate(offsets[name], dims), tensor.numel()))
        elif name in lengths:
            total = evaluate(lengths[name], dims)
            tensor.fill_(total // tensor.numel())
            tensor[-1] += total % tensor.numel()
        elif tensor.is_floating_point():
            floats(tensor)
        elif is_packed(subject.inputs[name]):  # any bits that it may have
            ends = torch.iinfo(tensor.dtype)
            tensor.random_(ends.min, ends.max + 1, generator=torch.Generator().manual_seed(0))
        else:
            tensor.zero_()
    return inputs


def _runs(subject: UserOperation, inputs: Mapping[str, torch.Tensor]) -> bool:
    try:
        with torch.no_grad():
            subject.call(inputs)
    except Exception:  # noqa: BLE001 - a user's function may raise anything for an index that is out of range
        return False
    return True

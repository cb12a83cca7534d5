"""Operations that compilers give to a library, in terms of simple ones: sorting, selection, pooling, counting.

Each rule holds for all sizes and keeps to pointwise operations, sums and indexed stores, so that any generator of
loops can write it and join it with the operations around.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

_aten = torch.ops.aten
Pair = tuple[torch.Tensor, torch.Tensor]
"""Values and their indices."""
_WRITTEN_OUT = 25
"""Elements of a window that Inductor writes out one by one; it gives larger ones that overlap to a library."""


def _ranks(x: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """Return the place of each element of the last axis in its order; equal ones keep theirs, NaN is the largest.

    An element's place is the number of those before it (enumeration sort, Knuth, TAOCP 3, section 5.2).
    """
    one, other = x.unsqueeze(-1), x.unsqueeze(-2)
    place = torch.arange(x.shape[-1], device=x.device)
    earlier = place.unsqueeze(0) < place.unsqueeze(1)
    less = other > one if descending else other < one
    equal = other == one
    if x.is_floating_point():
        odd, other_odd = one != one, other != other
        less = less | ((other_odd & ~odd) if descending else (odd & ~other_odd))
        equal = equal | (odd & other_odd)
    return (less | (equal & earlier)).to(torch.int64).sum(-1)


def sort(x: torch.Tensor, dim: int = -1, descending: bool = False, *, first: int = 0, count: int | None = None) -> Pair:
    """Sort along one axis, stably; return `count` values and their indices from place `first` on, by default all."""
    if x.ndim == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    last = x.movedim(dim, -1)
    wanted = torch.arange(last.shape[-1] if count is None else count, device=x.device) + first
    here = _ranks(last, descending=descending).unsqueeze(-2) == wanted.unsqueeze(-1)
    values, indices = _picked(last.unsqueeze(-2), here)
    return values.movedim(-1, dim), indices.movedim(-1, dim)


def _picked(x: torch.Tensor, here: torch.Tensor) -> Pair:
    """Return the elements of the last axis at the one place where `here` holds, and that place.

    They are sums in which one term is not 0, so that nothing is stored at a computed place.
    """
    place = torch.arange(x.shape[-1], device=x.device)
    values = torch.where(here, x, torch.zeros((), dtype=x.dtype, device=x.device)).sum(-1, dtype=x.dtype)
    return values, torch.where(here, place, torch.zeros_like(place)).sum(-1)


def _stable_sort(x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Pair:
    return sort(x, dim, descending)


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, in_order: bool = True) -> Pair:
    return sort(x, dim, largest, count=k) if x.ndim else sort(x)


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    values, indices = sort(x, dim, first=k - 1, count=1)
    return (values, indices) if keepdim or not x.ndim else (values.squeeze(dim), indices.squeeze(dim))


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair:
    if not x.ndim:
        return sort(x)
    last = x.movedim(dim, -1)
    ranks, end = _ranks(last, descending=False), last.shape[-1] - 1
    value, index = _picked(last, (2 * ranks <= end) & (2 * ranks + 2 > end))  # of two in the middle, the lower
    if x.is_floating_point():  # NaN, if there is one, is the last
        largest, largest_index = _picked(last, ranks == end)
        odd = largest != largest
        value, index = torch.where(odd, largest, value), torch.where(odd, largest_index, index)
    return (value.unsqueeze(dim), index.unsqueeze(dim)) if keepdim else (value, index)


def _average_pool(
    x: torch.Tensor,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Average over windows that overlap and are too large to be written out; compilers have rules for the others."""
    count = len(window)
    taps, steps, edges = (_each_axis(values, count) for values in (window, stride or window, padding))
    if prod(taps) <= _WRITTEN_OUT or taps == steps or ceil_mode:
        return NotImplemented
    around = [edge for each in reversed(edges) for edge in (each, each)]

    def total(each: torch.Tensor) -> torch.Tensor:
        made = torch.constant_pad_nd(each, around, 0)
        for axis in range(count):
            made = made.unfold(x.ndim - count + axis, taps[axis], steps[axis])
        return made.sum([*range(-count, 0)])

    if divisor_override or count_include_pad or not any(edges):
        return total(x) / (divisor_override or prod(taps))
    return total(x) / total(torch.ones_like(x))


def _each_axis(values: Sequence[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 else list(values)


def max_pool_1d(
    x: torch.Tensor,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Largest elements of windows of one axis, by the rule for two axes: torch's own for one axis fixes its size."""
    numbers = [[first, *values] for first, values in ((1, window), (1, stride or window), (0, padding), (1, dilation))]
    made: torch.Tensor = _aten.max_pool2d_with_indices(x.unsqueeze(-2), *numbers, ceil_mode)[0].squeeze(-2)
    return made


def _histogram(x: torch.Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    """Count the elements in equal parts of a range; that of the elements themselves depends on values."""
    if low == high:
        return NotImplemented
    x = x.reshape(-1)
    place = ((x - low) * bins / (high - low)).to(torch.int64).clamp(0, bins - 1)
    inside = ((x >= low) & (x <= high)).to(x.dtype)
    return x.new_zeros(bins).index_add(0, place, inside)


NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf")}
"""What a reduction leaves as it is."""


def scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Leave what was there out by a neutral number in its place; take a mean as a sum over a count."""
    if not x.is_floating_point() or (include_self and reduce != "mean"):
        return NotImplemented
    base = x if include_self else x.scatter(dim, index, NEUTRAL[reduce])
    if reduce != "mean":
        return base.scatter_reduce(dim, index, src, reduce)
    count = torch.full_like(x, float(include_self)).scatter_add(dim, index, torch.ones_like(src))
    return base.scatter_add(dim, index, src) / count.clamp(min=1.0)


def _adaptive_average(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Average over windows that share an axis out among so many; torch's rule holds for some sizes alone."""
    for axis, count in enumerate(size, x.ndim - len(size)):
        extent, place = x.shape[axis], torch.arange(count, device=x.device)
        begin, end = place * extent // count, ((place + 1) * extent + (count - 1)) // count
        here = torch.arange(extent, device=x.device)
        inside = (here >= begin.unsqueeze(-1)) & (here < end.unsqueeze(-1))
        total = torch.where(inside, x.movedim(axis, -1).unsqueeze(-2), 0.0).sum(-1)
        x = (total / (end - begin)).movedim(-1, axis)
    return x


def _embedding_bag(  # noqa: PLR0913 - torch's own arguments
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: torch.Tensor | None = None,
    ends_with_last: bool = False,
    padding: int = -1,
) -> Any:
    """Add rows up by bags; the bag of an element is the last that begins before it. Not of maxima, nor of padding."""
    if mode == 2 or padding >= 0 or ends_with_last:
        return NotImplemented
    bag = torch.bucketize(torch.arange(indices.shape[0], device=weight.device), offsets, right=True) - 1
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))  # GPUs add shorter numbers in place slowly
    rows = wide[indices] if factors is None else wide[indices] * factors.unsqueeze(-1)
    total = wide.new_zeros(offsets.shape[0], weight.shape[1]).index_add(0, bag, rows)
    count = wide.new_zeros(offsets.shape).index_add(0, bag, wide.new_ones(bag.shape))
    made = total / count.clamp(min=1.0).unsqueeze(-1) if mode == 1 else total
    return made.to(weight.dtype), bag, count.to(offsets.dtype), count.to(offsets.dtype)


def _segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Add rows up by segments, whose lengths or offsets are known. Not of maxima, nor with an initial value."""
    given = lengths if lengths is not None else offsets
    if reduce not in ("sum", "mean") or given is None or given.ndim != 1 or axis != 0 or initial is not None:
        return NotImplemented
    ends = given.cumsum(0) if lengths is not None else given[1:]
    segment = torch.bucketize(torch.arange(data.shape[0], device=data.device), ends, right=True)
    shape = (ends.shape[0], *data.shape[1:])
    total = data.new_zeros(shape).index_add(0, segment, data)
    if reduce == "sum":
        return total
    return total / data.new_zeros(shape).index_add(0, segment, torch.ones_like(data))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.sort.default: sort,
    _aten.sort.stable: _stable_sort,
    _aten.topk.default: _topk,
    _aten.kthvalue.default: _kthvalue,
    _aten.median.dim: _median,
    _aten.median.default: lambda x: _median(x.reshape(-1), 0)[0],
    _aten.avg_pool1d.default: _average_pool,
    _aten.avg_pool2d.default: _average_pool,
    _aten.avg_pool3d.default: _average_pool,
    _aten._adaptive_avg_pool2d.default: _adaptive_average,
    _aten._adaptive_avg_pool3d.default: _adaptive_average,
    _aten._embedding_bag_forward_only.default: _embedding_bag,
    _aten.histc.default: _histogram,
    _aten.segment_reduce.default: _segment_reduce,
    _aten.scatter_reduce.two: scatter_reduce,
}
"""Rules by operation."""

"""Operations that compilers give to a library, in terms of simple ones: sorting, selection, pooling, attention.

Each rule holds for all sizes and keeps to pointwise operations, sums and indexed stores, so that any generator of
loops can write it and join it with the operations around.
"""

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten


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


def sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort along one axis, stably; the result is that of `aten.sort`."""
    if x.ndim == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    last = x.movedim(dim, -1)
    ranks = _ranks(last, descending=descending)
    places = torch.arange(last.shape[-1], device=x.device).expand(last.shape)
    values = torch.zeros(last.shape, dtype=x.dtype, device=x.device).scatter(-1, ranks, last)
    indices = torch.zeros(last.shape, dtype=torch.int64, device=x.device).scatter(-1, ranks, places)
    return values.movedim(-1, dim), indices.movedim(-1, dim)


def _stable_sort(
    x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return sort(x, dim, descending)


def _topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True  # noqa: A002 - torch's name
) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = sort(x, dim, largest)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = sort(x, dim)
    made = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return made if keepdim else (made[0].squeeze(dim), made[1].squeeze(dim))


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = sort(x, dim)
    count = x.shape[dim]
    middle, last = (count - 1) // 2, count - 1
    value, index = values.narrow(dim, middle, 1), indices.narrow(dim, middle, 1)
    if x.is_floating_point():  # NaN, if there is one, is the last
        end, end_index = values.narrow(dim, last, 1), indices.narrow(dim, last, 1)
        value, index = torch.where(end != end, end, value), torch.where(end != end, end_index, index)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def _whole_median(x: torch.Tensor) -> torch.Tensor:
    return _median(x.reshape(-1), 0)[0]


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.sort.default: sort,
    _aten.sort.stable: _stable_sort,
    _aten.topk.default: _topk,
    _aten.kthvalue.default: _kthvalue,
    _aten.median.dim: _median,
    _aten.median.default: _whole_median,
}
"""Rules by operation."""

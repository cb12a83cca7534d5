"""Operations in terms of simple ones for plain loops alone: each costs no more than a pass over what it reads."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten


def _hits(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | None:
    """Return the elements that an index points to; None where it names several for a row, or leaves rows out."""
    dim = dim % x.ndim if x.ndim else 0
    wanted = [1 if axis == dim else extent for axis, extent in enumerate(x.shape)]
    if not x.ndim or list(index.shape) != wanted:
        return None
    places = torch.arange(x.shape[dim], device=x.device)
    return index == places[(None,) * dim + (slice(None),) + (None,) * (x.ndim - dim - 1)]


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, value: float) -> Any:
    hits = _hits(x, dim, index)
    return NotImplemented if hits is None else torch.where(hits, value, x)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Return the two parts of each dimension in the other order."""
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        extent = x.shape[dim]
        cut = extent - shift % extent if extent else 0
        if 0 < cut < extent:
            x = torch.cat([x.narrow(dim, cut, extent - cut), x.narrow(dim, 0, cut)], dim)
    return x


def _padded(x: torch.Tensor, pad: Sequence[int], value: float = 0) -> torch.Tensor:
    """Return a tensor between tensors of one number, without what pads below 0 cut off."""
    for place, count in enumerate(pad):
        dim, before = x.ndim - 1 - place // 2, place % 2 == 0
        if count < 0:
            x = x.narrow(dim, -count if before else 0, x.shape[dim] + count)
        elif count:
            more = x.new_full((*x.shape[:dim], count, *x.shape[dim + 1 :]), value)
            x = torch.cat((more, x) if before else (x, more), dim)
    return x


def _distances(x: torch.Tensor, y: torch.Tensor, p: float = 2.0, mode: int | None = None) -> torch.Tensor:
    """Return the distance of each row to each row, in the p-norm, without the cancellation of torch's own product."""
    off = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 2.0:
        return (off * off).sum(-1).sqrt()
    if p == float("inf"):
        return off.amax(-1)
    return off.sum(-1) if p == 1.0 else (off**p).sum(-1) ** (1 / p)


def _places(edges: torch.Tensor, x: torch.Tensor, dtype: torch.dtype, *, right: bool) -> torch.Tensor:
    """Return how many edges of each row stand before each element; NaN stands behind all."""
    row, one = edges if edges.ndim == 1 else edges.unsqueeze(-2), x.unsqueeze(-1)
    return (~(row > one if right else row >= one)).sum(-1, dtype=dtype)


def _bucketize(x: torch.Tensor, edges: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    return _places(edges, x, torch.int32 if out_int32 else torch.int64, right=right)


def _searchsorted(
    edges: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    if sorter is not None:
        return NotImplemented
    return _places(edges, x, torch.int32 if out_int32 else torch.int64, right=right or side == "right")


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    found = [each.narrow(dim, k - 1, 1) for each in x.sort(stable=True, dim=dim)]
    return found if keepdim else [each.squeeze(dim) for each in found]


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """Return the lower of two in the middle; NaN, if there is one, is the last."""
    if not x.ndim:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    ordered, end = x.sort(stable=True, dim=dim), x.shape[dim] - 1
    middle, last = ([each.narrow(dim, place, 1) for each in ordered] for place in (end // 2, end))
    if x.is_floating_point():
        middle = [torch.where(last[0].isnan(), *pair) for pair in zip(last, middle, strict=True)]
    return middle if keepdim else [each.squeeze(dim) for each in middle]


def _diagonal(x: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    """Return elements of two equal places, looked up: torch's rule names memory, which a turned tensor has in turn."""
    turned = x.movedim((dim1, dim2), (0, 1))
    across, down = max(offset, 0), max(-offset, 0)
    places = torch.arange(max(min(turned.shape[0] - down, turned.shape[1] - across), 0), device=x.device)
    return turned[places + down, places + across].movedim(0, -1)


def _with_diagonal(x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a tensor with another diagonal."""
    if not source.numel():
        return x
    turned = x.movedim((dim1, dim2), (0, 1))
    row, column = (torch.arange(extent, device=x.device) for extent in turned.shape[:2])
    place = (row - max(-offset, 0)).clamp(0, source.shape[-1] - 1).unsqueeze(-1)
    here = (column - row.unsqueeze(-1) == offset)[(...,) + (None,) * (x.ndim - 2)]
    return torch.where(here, source.movedim(-1, 0)[place], turned).movedim((0, 1), (dim1, dim2))


def _cholesky_solve(b: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """Solve two triangular systems, one behind the other."""
    lower, other = (factor.mT, factor) if upper else (factor, factor.mT)
    half = torch.linalg.solve_triangular(lower, b, upper=False)
    return torch.linalg.solve_triangular(other, half, upper=True)


def _cholesky_inverse(factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    whole = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand(factor.shape)
    return _cholesky_solve(whole, factor, upper)


LOOP_RULES: dict[Any, Callable[..., Any]] = {
    _aten.scatter.value: _scatter,
    _aten.cholesky_inverse.default: _cholesky_inverse,
    _aten.cholesky_solve.default: _cholesky_solve,
    _aten.roll.default: _roll,
    _aten.diagonal.default: _diagonal,
    _aten.diagonal_scatter.default: _with_diagonal,
    _aten.constant_pad_nd.default: _padded,
    _aten._euclidean_dist.default: _distances,
    _aten._cdist_forward.default: _distances,
    _aten.bucketize.Tensor: _bucketize,
    _aten.searchsorted.Tensor: _searchsorted,
    _aten.sort.default: lambda x, dim=-1, descending=False: _aten.sort.stable(
        x, stable=True, dim=dim, descending=descending
    ),
    _aten.kthvalue.default: _kthvalue,
    _aten.median.dim: _median,
    _aten.median.default: lambda x: _median(x.reshape(-1), 0)[0],
}
"""Rules by operation."""

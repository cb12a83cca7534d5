"""Operations in terms of simple ones for plain loops alone: each costs no more than a pass over what it reads."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

_aten = torch.ops.aten
_NOWHERE = 1 << 62
"""Larger than any place."""


def _hits(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | None:
    """Return the elements that an index points to; None where it names several for a row, or leaves rows out."""
    dim = dim % x.ndim if x.ndim else 0
    wanted = [1 if axis == dim else extent for axis, extent in enumerate(x.shape)]
    if not x.ndim or list(index.shape) != wanted:
        return None
    places = torch.arange(x.shape[dim], device=x.device)
    return index == places[(None,) * dim + (slice(None),) + (None,) * (x.ndim - dim - 1)]


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool = False) -> Any:
    hits = _hits(x, dim, index)
    return NotImplemented if hits is None else torch.where(hits, x, 0).sum(dim, keepdim=True)


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


def _extreme(name: str, x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest or smallest elements along a dimension, and the first place of each."""
    found: torch.Tensor = getattr(x, name)(dim, keepdim=True)
    places = torch.arange(x.shape[dim], device=x.device)
    place = places.reshape([-1 if axis == dim % x.ndim else 1 for axis in range(x.ndim)])
    first = torch.where(x == found, place, torch.full((), _NOWHERE, device=x.device)).amin(dim, keepdim=True)
    return (found, first) if keepdim else (found.squeeze(dim), first.squeeze(dim))


def _place_of(name: str, x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if x.ndim == 0 or (dim is None and keepdim):
        return NotImplemented
    return _extreme(name, x.reshape(-1) if dim is None else x, 0 if dim is None else dim, keepdim)[1]


def _distances(x: torch.Tensor, y: torch.Tensor, p: float = 2.0, mode: int | None = None) -> torch.Tensor:
    """Return the distance of each row to each row, in the p-norm, without the cancellation of torch's own product."""
    off = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 2.0:
        return (off * off).sum(-1).sqrt()
    if p == float("inf"):
        return off.amax(-1)
    return off.sum(-1) if p == 1.0 else (off**p).sum(-1) ** (1 / p)


LOOP_RULES: dict[Any, Callable[..., Any]] = {
    _aten.gather.default: _gather,
    _aten.scatter.value: _scatter,
    _aten.roll.default: _roll,
    _aten.max.dim: partial(_extreme, "amax"),
    _aten.min.dim: partial(_extreme, "amin"),
    _aten.argmax.default: partial(_place_of, "amax"),
    _aten.argmin.default: partial(_place_of, "amin"),
    _aten._euclidean_dist.default: _distances,
    _aten._cdist_forward.default: _distances,
}
"""Rules by operation."""

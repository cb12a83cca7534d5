"""Elements picked by an index for each row, as comparisons with all places: what plain loops can say."""

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


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool = False) -> Any:
    hits = _hits(x, dim, index)
    return NotImplemented if hits is None else torch.where(hits, x, 0).sum(dim, keepdim=True)


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, value: float) -> Any:
    hits = _hits(x, dim, index)
    return NotImplemented if hits is None else torch.where(hits, value, x)


INDEX_RULES = {_aten.gather.default: _gather, _aten.scatter.value: _scatter}
"""Decompositions for a trace of plain loops, which costs no more than a pass over the row."""

"""Masks that are added to scores: floats of which some are -inf, or as good as that, and close a place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from evokernel.scaffold.operation.user_operation import UserOperation

_FEWEST = 8
"""Elements of a mask at least."""
_AS_GOOD_AS_CLOSED = -1e3
"""Largest number that closes a place: its exponential is 0 beside any ordinary score."""
_ORDINARY = 100.0
"""Largest size of the other numbers beside such a one."""


@dataclass(frozen=True, slots=True)
class AdditiveMask:
    """What a mask consists of."""

    closed: float
    """The number that closes a place: an infinity, NaN, or a large negative one."""
    spread: float
    """Standard deviation of the others; 0 where all are 0."""


def find_masks(subject: UserOperation) -> Mapping[str, AdditiveMask]:
    """Return the inputs of floats in whose example one such number stands in many places, but not in all of a row.

    Random numbers hold none, and a kernel that gives NaN for a row that begins with -inf would pass all checks.
    """
    found = {name: _mask(tensor) for name, tensor in subject.inputs.items() if name not in subject.in_place}
    return {name: mask for name, mask in found.items() if mask is not None}


def _mask(tensor: torch.Tensor) -> AdditiveMask | None:
    valued = tensor.is_floating_point() and not tensor.is_meta  # what was captured has shapes alone
    if not valued or tensor.element_size() < 2 or tensor.ndim < 1 or tensor.numel() < _FEWEST:
        return None
    values = tensor.detach().double()
    closed = ~values.isfinite()
    if not closed.any():
        closed = (values == values.min()) & (values <= _AS_GOOD_AS_CLOSED)
    kinds, others = values[closed], values[~closed]
    if kinds.numel() < 2 or bool(closed.all(dim=-1).any()) or kinds.nan_to_num().unique().numel() > 1:
        return None
    if kinds.isfinite().all() and float(others.abs().max()) > _ORDINARY:
        return None
    deviation = float(others.std(correction=0))
    return AdditiveMask(float(kinds[0]), float(f"{deviation:.3g}") if math.isfinite(deviation) else 1.0)

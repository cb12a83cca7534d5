"""Forms of calls: dtypes, layouts, sizes and constants of their arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.scaffold.capture.value_statistics import Extents
from evokernel.scaffold.user_operation import axis_order

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class TensorForm:
    """Type of a tensor argument, without its sizes."""

    dtype: str
    """As tasks name it."""
    order: tuple[int, ...]
    """Axes by their steps in memory, the outermost first."""
    dense: bool
    """False where elements overlap, or others lie between them."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """All that two calls must share to be calls of one task."""

    arguments: tuple[tuple[str, TensorForm | str], ...]
    """By name, in calling order; a constant is text."""
    weights: tuple[tuple[int, ...], ...] = ()
    """Sizes of a module's parameters."""
    training: bool = False
    """Mode of a module."""


Sizes = tuple[tuple[str, tuple[int, ...]], ...]
"""Shape of each tensor argument, by name."""


def form_of(arguments: Mapping[str, Any], module: torch.nn.Module | None) -> CallForm:
    """Return the form of a call."""
    return CallForm(
        tuple((name, _argument_form(value)) for name, value in arguments.items()),
        weights=tuple(tuple(each.shape) for each in module.parameters()) if module is not None else (),
        training=module is not None and module.training,
    )


def sizes_of(arguments: Mapping[str, Any]) -> Sizes:
    """Return the shapes of the tensor arguments."""
    return tuple((name, tuple(value.shape)) for name, value in arguments.items() if isinstance(value, torch.Tensor))


def extents_of(sizes: Sizes) -> Extents:
    """Return each size by argument and axis."""
    return {(name, axis): extent for name, shape in sizes for axis, extent in enumerate(shape)}


def _argument_form(value: Any) -> TensorForm | str:
    if not isinstance(value, torch.Tensor):
        return repr(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"
    order = axis_order(value)
    dense = value.permute(order).is_contiguous()
    natural = tuple(range(value.ndim))
    return TensorForm(str(value.dtype).removeprefix("torch."), order if dense else natural, dense)


def example_of(value: Any) -> Any:
    """Return an example that stands for an argument: integers with their values, other tensors without contents."""
    if not isinstance(value, torch.Tensor):
        return value
    order = axis_order(value)
    if not value.permute(order).is_contiguous():
        order = tuple(range(value.ndim))
    if not value.is_floating_point():
        dense = value.detach().cpu().permute(order).contiguous()
    else:
        dense = torch.empty([value.shape[axis] for axis in order], dtype=value.dtype, device="meta")
    return dense.permute([order.index(axis) for axis in range(value.ndim)])

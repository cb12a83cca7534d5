"""Rules of our own for operations that Inductor gives to a library, in place for one compilation."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from torch._inductor import ir, lowering
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_impls import op_implementations_dict
from torch.utils._sympy.functions import FloorDiv

from evokernel.scaffold.decompositions.library_operations import DECOMPOSITIONS, NEUTRAL, max_pool_1d, scatter_reduce
from evokernel.scaffold.decompositions.recurrent_layers import CELLS, recurrent_rules
from evokernel.scaffold.inductor.convolution import convolution
from evokernel.scaffold.inductor.recurrence_kernel import recurrence

_aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_RECURRENT_KEYS = (_COMPOSITE, torch._C.DispatchKey.Autograd)
"""Keys of torch's own rules for recurrent layers."""


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Let each place look for the elements that are stored there, where the compiler would ask a library."""
    if reduce in ("sum", "mean") or not x.is_floating_point() or not x.ndim:
        return scatter_reduce(x, dim, index, src, reduce, include_self=include_self)
    one, other = (each.movedim(dim, -1) for each in (x, index))
    if one.shape[:-1] != other.shape[:-1] or src.shape != index.shape:
        return NotImplemented
    here = other.unsqueeze(-2) == torch.arange(one.shape[-1], device=x.device).unsqueeze(-1)
    values = torch.where(here, src.movedim(dim, -1).unsqueeze(-2), NEUTRAL[reduce])
    one = one if include_self else torch.where(here.any(-1), NEUTRAL[reduce], one)
    if reduce == "prod":
        return (one * values.prod(-1)).movedim(-1, dim)
    made = torch.maximum(one, values.amax(-1)) if reduce == "amax" else torch.minimum(one, values.amin(-1))
    return made.movedim(-1, dim)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the compiler's rules and ours."""
    return {**select_decomp_table(), **DECOMPOSITIONS, _aten.scatter_reduce.two: _scatter_reduce}


@contextlib.contextmanager
def own_rules() -> Iterator[None]:
    """Lower convolutions by our rule, and take their shapes from their sizes alone.

    The compiler would ask a library for its choice, which fixes the sizes of the weights. Pooling stays a loop,
    however large its windows are. A recurrent layer is one kernel, whatever its number of steps.
    """
    operation = _aten.convolution.default
    with contextlib.ExitStack() as layers:
        for kind, rule in recurrent_rules(recurrence).items():
            kernels = getattr(_aten, kind).input.py_kernels
            layers.enter_context(mock.patch.dict(kernels, dict.fromkeys(_RECURRENT_KEYS, rule)))
        for kind, rule in CELLS.items():
            kernels = getattr(_aten, kind).default.py_kernels
            layers.enter_context(mock.patch.dict(kernels, dict.fromkeys(_RECURRENT_KEYS, rule)))
        layers.enter_context(torch._dynamo.config.patch(allow_rnn=True))
        layers.enter_context(mock.patch.object(torch.nn.RNNBase, "flatten_parameters", _nothing))
        with _own_lowerings(operation):
            yield


def _nothing(layer: torch.nn.RNNBase) -> None:
    """Leave the weights of a layer where they are: only a library wants them side by side."""


def _pooling_size(
    x: Any, axis: int, window: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool, **more: Any
) -> tuple[Any, bool]:
    """Return the count of a pooling's windows along an axis, and whether the last may end outside.

    Rounded up, the compiler's own would hold only for sizes at which that makes a difference, or only for the others.
    """
    reach = (more.get("dilation") or [1] * len(window))[axis] * (window[axis] - 1)
    if not ceil or padding[axis] + stride[axis] > reach + 1:  # the last window could begin outside, and not count
        made: tuple[Any, bool] = _library_pooling_size(x, axis, window, stride, padding, ceil, **more)
        return made
    return FloorDiv(x + 2 * padding[axis] - reach + 2 * (stride[axis] - 1), stride[axis]), True


_library_pooling_size = lowering.pooling_size


@contextlib.contextmanager
def _own_lowerings(operation: Any) -> Iterator[None]:
    with (
        mock.patch.dict(lowering.lowerings),
        mock.patch.dict(lowering._maybe_layout_constraints, {operation: None}),
        mock.patch.dict(op_implementations_dict),
        mock.patch.object(lowering, "pooling_size", _pooling_size),
        mock.patch.object(lowering, "should_fallback_max_pool_with_indices", return_value=False),
        mock.patch.object(ir.Scan, "num_splits", return_value=(ir.ReductionHint.DEFAULT, 1)),  # needs no room beside
        mock.patch.dict(_aten.max_pool1d.default.py_kernels, {_COMPOSITE: max_pool_1d}),
    ):
        del op_implementations_dict[operation]
        lowering.register_lowering(operation, type_promotion_kind=None)(convolution)
        yield

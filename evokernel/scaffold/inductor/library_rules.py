"""Rules of our own for operations that Inductor gives to a library, in place for one compilation."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor import lowering
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_impls import op_implementations_dict

from evokernel.scaffold.inductor.convolution import convolution
from evokernel.scaffold.library_operations import DECOMPOSITIONS, max_pool_1d

_aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the compiler's rules and ours."""
    return {**select_decomp_table(), **DECOMPOSITIONS}


@contextlib.contextmanager
def own_rules() -> Iterator[None]:
    """Lower convolutions by our rule, and take their shapes from their sizes alone.

    The compiler would ask a library for its choice, which fixes the sizes of the weights. Pooling stays a loop,
    however large its windows are.
    """
    operation = _aten.convolution.default
    with (
        mock.patch.dict(lowering.lowerings),
        mock.patch.dict(lowering._maybe_layout_constraints, {operation: None}),
        mock.patch.dict(op_implementations_dict),
        mock.patch.object(lowering, "should_fallback_max_pool_with_indices", return_value=False),
        mock.patch.dict(_aten.max_pool1d.default.py_kernels, {_COMPOSITE: max_pool_1d}),
    ):
        del op_implementations_dict[operation]
        lowering.register_lowering(operation, type_promotion_kind=None)(convolution)
        yield

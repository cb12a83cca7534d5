"""CUDA's library of mathematical functions for Triton's interpreter, which has none: the same functions of torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from triton import language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_OTHER_NAMES = {
    "fabs": "abs",
    "rint": "round",
    "nearbyint": "round",
    "llrint": "round",
    "isinfd": "isinf",
    "isfinited": "isfinite",
}
_TRUTHS = frozenset({"isnan", "isinf", "isfinite", "signbit"})


class InterpretedLibrary:
    """Replacement of `triton.language.extra.libdevice` under TRITON_INTERPRET."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function of CUDA's library. Raises `AttributeError` for one that torch does not have."""
        own = _OTHER_NAMES.get(name, name)
        function = getattr(torch, own, None) or getattr(torch.special, own)

        def call(*arguments: Any) -> Any:
            first = next(each for each in arguments if hasattr(each, "handle"))
            values = [torch.from_numpy(np.array(getattr(_handle(each), "data", each))) for each in arguments]
            made = np.asarray(function(*values).numpy())
            kind = tl.int1 if own in _TRUTHS else tl.int64 if name == "llrint" else first.dtype
            made = made.astype({tl.int1: np.bool_, tl.int64: np.int64}.get(kind, first.handle.data.dtype))
            shape = made.shape
            return tl.core.tensor(TensorHandle(made, kind), tl.block_type(kind, list(shape)) if shape else kind)

        return call


def masks_of_numbers() -> None:
    """Let the interpreter of this process take masks of integers, such as `mask & inside`, for what they are."""
    for name, place in (("create_masked_load", 0), ("create_masked_store", 1)):
        wanted = getattr(InterpreterBuilder, name)

        def call(self: Any, pointers: Any, *given: Any, wanted: Any = wanted, place: int = place) -> Any:
            mask = given[place]
            truth = TensorHandle(mask.data.astype(np.bool_), tl.int1)
            return wanted(self, pointers, *given[:place], truth, *given[place + 1 :])

        setattr(InterpreterBuilder, name, call)


def _handle(value: Any) -> Any:
    return getattr(value, "handle", value)

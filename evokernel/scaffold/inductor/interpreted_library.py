"""What Triton's interpreter lacks: CUDA's library of mathematical functions, masks of integers, and quick folds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from triton import language as tl
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

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
    """Replacement of `triton.language.extra.libdevice` under TRITON_INTERPRET: the same functions of torch."""

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
            # the interpreter keeps single numbers, such as those of sizes, in arrays of one element
            blocks = any(hasattr(each, "type") and each.type.is_block() for each in arguments)
            shape = made.shape if blocks else ()
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


def folds_of_slices() -> None:
    """Let the interpreter of this process fold a whole slice at once by a function, where it would each number."""

    def reduced(self: Any, given: Sequence[Any]) -> list[Any]:
        parts, axis = self.unravel(given, self.axis)
        *_, last = _running(self, parts, axis)
        made = []
        for part, data in zip(parts, last, strict=True):
            if self.keep_dims and self.axis is None:
                data = data.reshape((1,) * given[0].handle.data.ndim)
            elif self.keep_dims:
                data = np.expand_dims(data, axis)
            made.append(self.to_tensor(data, part.dtype))
        return made

    def scanned(self: Any, given: Sequence[Any]) -> list[Any]:
        totals = zip(*_running(self, given, self.axis), strict=True)
        pairs = zip(given, totals, strict=True)
        return [self.to_tensor(np.stack(each, self.axis), part.dtype) for part, each in pairs]

    ReduceOps.generic_reduce, ScanOps.generic_scan = reduced, scanned


def _running(fold: Any, parts: Sequence[Any], axis: int) -> Iterator[list[np.ndarray[Any, Any]]]:
    """Yield the totals of the first slice, of the first two, and so on."""
    totals: list[np.ndarray[Any, Any]] = []
    for place in range(parts[0].handle.data.shape[axis]):
        arrays = [part.handle.data.take(place, axis) for part in parts]
        if totals:
            pairs = zip((*totals, *arrays), (*parts, *parts), strict=True)
            made = fold.combine_fn.fn(*(fold.to_tensor(data, part.dtype) for data, part in pairs))
            found: list[Any] = [_handle(each).data for each in (made if isinstance(made, tuple) else (made,))]
            arrays = [f.reshape(a.shape).astype(a.dtype) for f, a in zip(found, arrays, strict=True)]
        totals = [np.asarray(array) for array in arrays]
        yield totals


def _handle(value: Any) -> Any:
    return getattr(value, "handle", value)

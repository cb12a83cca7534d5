"""Indices of a reference on a GPU, checked before they are used: the device answers a wrong one by ending the process.

A processor raises `IndexError`, which a judge expects where it tries a reference with other numbers, or a user's
reference does not fit its inputs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.dispatch import EagerMode, arguments_of

# Operations by the indices that they take: one for each axis, along an axis, of rows, into all elements, of classes.
_BY_LIST = ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
_ALONG = ("gather", "index_add", "index_copy", "index_fill", "index_reduce", "index_select", "scatter")
_ROWS = ("embedding", "embedding_renorm_", "_embedding_bag", "_embedding_bag_forward_only")
_FLAT = ("take", "put", "put_")
_LABELS = ("nll_loss_forward", "nll_loss2d_forward")


class IndexChecks(EagerMode):
    """A mode under which an operation raises `IndexError` for an index that is out of bounds, on every device.

    It waits for the device at each operation that takes indices.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        operation, named = func.overloadpacket.__name__, dict(kwargs or {})
        for index, low, high in _used(operation, arguments_of(func, args, named)):
            _check(operation, index, low, high)
        return func(*args, **named)


def _used(operation: str, given: Mapping[str, Any]) -> Iterator[tuple[Array, int, int]]:
    """Yield the indices of an operation with the least allowed and what all must be below."""
    if operation in _BY_LIST:
        yield from _of_list(given["self"], given["indices"])
    elif operation.startswith(_ALONG) and isinstance(given.get("index"), torch.Tensor):
        extent = given["self"].shape[given["dim"]] if given["self"].ndim else 1
        counts_back = operation.startswith("index_fill")  # as Python does
        yield given["index"], -extent if counts_back else 0, extent
    elif operation in _ROWS:
        yield given["indices"], 0, given["self" if operation == "embedding_renorm_" else "weight"].shape[0]
    elif operation in _FLAT:
        yield given["index"], -given["self"].numel(), given["self"].numel()
    elif operation in _LABELS:
        target = given["target"]
        classes = given["self"].shape[1 if given["self"].ndim > 1 else 0]
        yield target[target != given["ignore_index"]], 0, classes


def _of_list(values: Array, indices: Any) -> Iterator[tuple[Array, int, int]]:
    axis = 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            axis += index.ndim  # a mask, whose shape torch checks itself
            continue
        if index is not None:
            yield index, -values.shape[axis], values.shape[axis]
        axis += 1


def _check(operation: str, index: Array, low: int, high: int) -> None:
    if index.numel() and index.dtype in (torch.int32, torch.int64):
        least, most = (int(each) for each in index.aminmax())
        if least < low or most >= high:
            wrong = least if least < low else most
            raise IndexError(f"{operation}: index {wrong} is out of bounds for a dimension of size {high}")

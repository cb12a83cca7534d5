"""Forms of calls: dtypes, layouts, sizes and constants of their arguments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.scaffold.capture.value_statistics import ValueStatistics
from evokernel.scaffold.operation.user_operation import axis_order
from evokernel.task import DTYPES

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

    def __str__(self) -> str:
        plain = self.order == tuple(range(len(self.order)))
        return f"{self.dtype} of {len(self.order)} axes" + ("" if plain else f" that lie in memory as {self.order}")

    def example(self, shape: tuple[int, ...], found: ValueStatistics) -> torch.Tensor:
        """Return an example: integers of the same range, other tensors without contents."""
        extents, dtype = [shape[axis] for axis in self.order], torch_dtype(self.dtype)
        if dtype.is_floating_point:
            dense = torch.empty(extents, dtype=dtype, device="meta")
        else:
            dense = torch.full(extents, int(found.low), dtype=dtype)
            dense.view(-1)[-1] = int(found.high)
        return dense.permute([self.order.index(axis) for axis in range(len(shape))])


@dataclass(frozen=True, slots=True)
class CallForm:
    """All that two calls must share to be calls of one task."""

    arguments: tuple[tuple[str, TensorForm | str], ...]
    """By name, in calling order; a constant is text."""
    made: str = ""
    """Python expression that makes a module, its mode and dtype included; empty for a function."""

    @property
    def tensors(self) -> dict[str, TensorForm]:
        """The tensor arguments by name."""
        return {name: form for name, form in self.arguments if isinstance(form, TensorForm)}

    def differences(self, other: "CallForm") -> Iterator[str]:
        """Yield what differs, in words."""
        mine, theirs = dict(self.arguments), dict(other.arguments)
        for name in dict.fromkeys((*mine, *theirs)):
            if mine.get(name) != theirs.get(name):
                yield f"{name} is {mine.get(name)} and {theirs.get(name)}"
        if self.made != other.made:
            yield f"the module is {self.made} and {other.made}"


Sizes = tuple[tuple[str, tuple[int, ...]], ...]
"""Shape of each tensor argument, by name."""


def form_of(arguments: Mapping[str, Any], made: str) -> CallForm:
    """Return the form of a call. Raises `TaskError` for a tensor that no task can have."""
    return CallForm(tuple((name, _argument_form(name, value)) for name, value in arguments.items()), made)


def sizes_of(arguments: Mapping[str, Any]) -> Sizes:
    """Return the shapes of the tensor arguments."""
    return tuple((name, tuple(value.shape)) for name, value in arguments.items() if isinstance(value, torch.Tensor))


def is_plain(value: Any) -> bool:
    """Say whether a value is a number, a text, None, or a tuple or list of these."""
    if isinstance(value, tuple | list):
        return all(isinstance(each, _PLAIN) for each in value)
    return isinstance(value, _PLAIN)


def _argument_form(name: str, value: Any) -> TensorForm | str:
    if not isinstance(value, torch.Tensor):
        return repr(value) if is_plain(value) else f"a {type(value).__name__}"
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPES or value.layout != torch.strided:
        raise TaskError(
            f"the argument {name!r} is {dtype}, {value.layout}; expected a dense one of {', '.join(DTYPES)}"
        )
    order = axis_order(value)
    dense = value.permute(order).is_contiguous()
    natural = tuple(range(value.ndim))
    return TensorForm(dtype, order if dense else natural, dense)

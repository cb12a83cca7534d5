"""Casts to 16 bits inside a reference: an honest kernel may round there, or elsewhere, or not at all.

A model casts for speed, `(x.bfloat16() @ w.bfloat16()).float()`, and each library rounds in other places on the way.
How far that moves a result is seen by leaving the casts out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.decisions import Decision
from evokernel.evaluate.numerics.edges import decided_answer
from evokernel.task import Task, Workload

_SHORT = (torch.bfloat16, torch.float16)
_NAMED = (torch.Tensor.bfloat16, torch.Tensor.half)
_SAME_BITS = torch.Tensor.view
"""With a dtype it takes bits for those of another number, which is no rounding."""


class CastFinder(TorchFunctionMode):  # type: ignore[misc]
    """Notes casts to 16 bits; with `skip` numbers get torch's default type instead, which is fp64 in an fp64 answer."""

    def __init__(self, *, skip: bool = False) -> None:
        super().__init__()
        self._skip = skip
        self.found = False
        """There was one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func in _NAMED:
            self.found = True
            if self._skip:
                return args[0].to(torch.get_default_dtype())
        elif func is not _SAME_BITS and any(value in _SHORT for value in (*args, *named.values()) if _is_dtype(value)):
            self.found = True
            if self._skip:
                args, named = map(_wide, args), {name: _wide(value) for name, value in named.items()}
        return func(*args, **named)


def answer_without_casts(
    task: Task, workload: Workload, inputs: Mapping[str, Array], decisions: Sequence[Decision]
) -> tuple[Array, ...]:
    """Return the fp64 answer under some decisions with no cast to 16 bits; empty where the reference needs them."""
    try:
        with CastFinder(skip=True):
            return decided_answer(task, workload, inputs, decisions)
    except TaskError:  # it multiplies by weights of 16 bits, say, which it brings along
        return ()


def _is_dtype(value: Any) -> bool:
    return isinstance(value, torch.dtype)


def _wide(value: Any) -> Any:
    return torch.get_default_dtype() if _is_dtype(value) and value in _SHORT else value

"""Conversions that each machine does in its own way: to a byte, of a number that it cannot hold, or of NaN."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from evokernel.evaluate.bench.admission_variants import attempt
from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.dispatch import EagerMode
from evokernel.task import Task, Workload

_BYTES = (torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)
_CONVERTS = ("_to_copy", "copy_")


def undefined_conversion(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> str:
    """Return the conversion of a call of the reference that has no one result, as words; nothing where none has."""
    with _Conversions() as seen:
        attempt(task, workload, inputs)
    return str(seen.found)


class _Conversions(EagerMode):
    """Notes the first number that its type of one byte does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.found = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **dict(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _CONVERTS and made.dtype in _BYTES and not self.found:
            self._see(args[name == "copy_"], made.dtype)
        return made

    def _see(self, numbers: torch.Tensor, dtype: torch.dtype) -> None:
        if not numbers.is_floating_point():
            return
        numbers = numbers.double()
        if dtype.is_floating_point:  # some machines make the largest number of what is larger, others NaN or infinity
            held_float = torch.finfo(dtype)
            half_a_step = held_float.eps * 2.0 ** (math.frexp(held_float.max)[1] - 2)
            outside = numbers[numbers.abs() >= held_float.max + half_a_step]  # less is rounded to it
        else:
            held, whole = torch.iinfo(dtype), numbers.trunc()
            outside = numbers[~((whole >= held.min) & (whole <= held.max))]  # so that NaN is outside
        if outside.numel():
            self.found = f"{outside[0].item():g} to {str(dtype).removeprefix('torch.')}"

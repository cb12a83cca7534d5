"""Memory of the tensors that a plain kernel is tried with."""

from typing import Any

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import is_float, torch_dtype
from evokernel.evaluate.numerics.canary import draw_poison, poison_like
from evokernel.scaffold.operation.trial import dtype_name
from evokernel.task import Tensor, Workload

_ALIGNMENT = 64


def as_it_lies(tensor: Tensor, values: torch.Tensor, workload: Workload) -> np.ndarray[Any, Any]:
    """Return the contents of an input in the order of memory."""
    strides = tensor.strides_at(workload.sizes)
    order = sorted(range(values.ndim), key=lambda axis: -strides[axis]) if strides else range(values.ndim)
    return _in_numpy(values.permute(*order).contiguous())


def unwritten(tensor: Tensor, workload: Workload) -> np.ndarray[Any, Any]:
    """Return the contents of an output before the call: what nobody may leave there."""
    empty = torch.empty(tensor.shape_at(workload.sizes), dtype=torch_dtype(tensor.dtype))
    return _in_numpy(poison_like(empty, draw_poison(np.random.default_rng())))


def _in_numpy(values: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor as an array, which has whole numbers for floats of eight and sixteen bits."""
    whole = {1: torch.uint8, 2: torch.int16}.get(values.element_size()) if is_float(dtype_name(values)) else None
    made: np.ndarray[Any, Any] = (values.view(whole) if whole else values).numpy()
    return made


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy aligned to 64 bytes, as kernels require."""
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copy: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy

"""Tensors of a task: its dtypes by name, rounding to them, and comparison bit by bit.

The evaluator computes on arrays where they live, on a processor or on a GPU.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch

from evokernel.task import DTYPES, Tensor

Array: TypeAlias = torch.Tensor

SHORT = (torch.bfloat16, torch.float16)
BYTES = (torch.bool, torch.int8, torch.uint8)
EDGED = (*BYTES, torch.int16, torch.int32, torch.int64)
"""Types of results that are compared exactly but at edges: between two numbers, or positions of numbers that tie."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def torch_dtype(dtype: str) -> torch.dtype:
    """Return the torch dtype of a task dtype. Raises `KeyError` for an unknown one."""
    return {name: getattr(torch, name) for name in DTYPES}[dtype]


def is_float(dtype: str) -> bool:
    """Say whether a task dtype is a floating-point one."""
    return "float" in dtype


def float_dtypes(tensors: Iterable[Tensor]) -> list[str]:
    """Return the task dtypes of the floating-point ones among tensors."""
    return [tensor.dtype for tensor in tensors if is_float(tensor.dtype)]


def store(values: Array, dtype: str) -> Array:
    """Round numbers to a task dtype, to nearest even; too large ones become infinite."""
    return values.to(torch_dtype(dtype))


def widen(values: Array) -> Array:
    """Return floating-point numbers as float64, integers as they are."""
    return values.double() if values.is_floating_point() else values


def differ(left: Array, right: Array) -> Array:
    """Mark unequal elements; of truth values unequal bytes, since torch takes every byte but 0 for true."""
    if left.dtype == torch.bool:
        return bits(left) != bits(right)
    few = left.is_floating_point() and left.element_size() == 1  # which torch compares on some devices only
    return left.float() != right.float() if few else left != right


def bits(array: Array) -> Array:
    """Return a view of an array as integers of the size of its elements."""
    return array.view(_BITS[array.element_size()])


def as_bits(array: Array, move: Callable[[Array], Array]) -> Array:
    """Return an array whose elements were moved as integers: on some devices torch moves no bytes that are floats."""
    return move(bits(array)).view(array.dtype)


def identical(left: Array, right: Array) -> bool:
    """Say whether two arrays have the same shape, dtype and bits; a NaN equals itself, 0 differs from -0."""
    return left.dtype == right.dtype and bool(torch.equal(bits(left), bits(right)))


def raw_bytes(array: Array) -> bytes:
    """Return the bytes of an array, row-major."""
    plain = array.detach().cpu().contiguous().reshape(-1)
    return bytes(plain.view(torch.uint8).numpy())


def synchronize(device: str) -> None:
    """Wait until all work that this process queued on a device is done, and visible to other processes."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def release_unused(device: str) -> None:
    """Give memory of a device that this process has freed, and kept for itself, to other processes."""
    if device != "cpu":
        torch.cuda.empty_cache()

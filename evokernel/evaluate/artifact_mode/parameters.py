"""Parameters of recorded launches: numbers that fit their types, and pointers that point into known buffers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evokernel.evaluate.artifact_mode.fields import PlanError, flag, integer, integers, items
from evokernel.evaluate.inside.driver.kernel_parameters import FLOATS, POINTER, TENSOR_MAP, Parameter, TensorMap, number

# bits of an element in global memory, by CUtensorMapDataType; those of 6 bits are counted as whole bytes
_ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 8)
_MAP_FIELDS = 8
_MAX_RANK = 5
_MAX_EXTENT = 1 << 32
_MAX_STRIDE_BYTES = 1 << 40
_MAX_BOX = 256
_SWIZZLES = 6  # CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B


@dataclass(frozen=True, slots=True)
class Place:
    """An address: a buffer's name and an offset in bytes."""

    buffer: str
    offset: int


def read_parameter(value: Any, sizes: Mapping[str, int]) -> Parameter:
    """Check one parameter. Raises `PlanError` if it is malformed, or does not fit its type or its buffer.

    Args:
        value: `[kind, value]`, as `evaluate/inside/untrusted/recording` describes it.
        sizes: bytes of each buffer by name.

    Returns:
        A parameter whose value is a number, a `Place`, None, or a `TensorMap` with a `Place` as its base.
    """
    kind, content = items(value, "a parameter", least=2, most=2)
    if type(kind) is not str:
        raise PlanError("a parameter's type must be a name")
    if kind == POINTER:
        return Parameter(kind, None if content is None else _pointer(content, sizes))
    if kind == TENSOR_MAP:
        return Parameter(kind, _tensor_map(content, sizes))
    return Parameter(kind, _number(kind, content))


def write_parameter(parameter: Parameter) -> list[Any]:
    """Return a checked parameter in the format it was read in."""
    match parameter.value:
        case Place(buffer, offset):
            return [parameter.kind, [buffer, offset]]
        case TensorMap(base, element_type, swizzle, shape, strides_bytes, box, nan_padding):
            extents = [list(shape), list(strides_bytes), list(box)]
            return [parameter.kind, [base.buffer, base.offset, element_type, swizzle, *extents, nan_padding]]
        case plain:
            return [parameter.kind, plain]


def read_place(buffer: Any, offset: Any, *, size_bytes: int, sizes: Mapping[str, int]) -> Place:
    """Check that `size_bytes` bytes from an offset lie within a buffer. Raises `PlanError`."""
    if type(buffer) is not str or buffer not in sizes:
        raise PlanError("a buffer that is neither an argument nor scratch")
    room = sizes[buffer] - size_bytes
    if room < 0:
        raise PlanError(f"{size_bytes} bytes of buffer {buffer}, which has {sizes[buffer]}")
    return Place(buffer, integer(offset, f"the offset of {size_bytes} bytes in buffer {buffer}", most=room))


def _number(kind: str, value: Any) -> int | float:
    if type(value) is not (float if kind in FLOATS else int):
        raise PlanError("a number that is not of its parameter's type")
    try:
        passed = number(kind, value)
    except (ValueError, OverflowError):
        raise PlanError("a parameter of no known type, or a number too large for it") from None
    if passed != value and not math.isnan(passed):
        raise PlanError(f"a number that a parameter of type {kind} cannot hold")
    return passed


def _pointer(content: Any, sizes: Mapping[str, int]) -> Place:
    buffer, offset = items(content, "a pointer", least=2, most=2)
    return read_place(buffer, offset, size_bytes=0, sizes=sizes)


def _tensor_map(content: Any, sizes: Mapping[str, int]) -> TensorMap:
    buffer, offset, kind, swizzle, shape, strides, box, padding = items(
        content, "a tensor map", least=_MAP_FIELDS, most=_MAP_FIELDS
    )
    element_type = integer(kind, "a tensor map's type of elements", most=len(_ELEMENT_BITS) - 1)
    rank = len(items(shape, "a tensor map's extents", least=1, most=_MAX_RANK))
    extents = integers(shape, "a tensor map's extents", count=rank, least=1, most=_MAX_EXTENT)
    steps = integers(strides, "a tensor map's strides", count=rank - 1, most=_MAX_STRIDE_BYTES)
    row_bytes = -(-extents[0] * _ELEMENT_BITS[element_type] // 8)
    size_bytes = row_bytes + sum((extent - 1) * step for extent, step in zip(extents[1:], steps, strict=True))
    return TensorMap(
        base=read_place(buffer, offset, size_bytes=size_bytes, sizes=sizes),
        element_type=element_type,
        swizzle=integer(swizzle, "a tensor map's swizzle", most=_SWIZZLES),
        shape=extents,
        strides_bytes=steps,
        box=integers(box, "a tensor map's box", count=rank, least=1, most=_MAX_BOX),
        nan_padding=flag(padding, "a tensor map's padding"),
    )

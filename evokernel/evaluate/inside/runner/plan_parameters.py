"""Parameters of a recorded launch with addresses in place of buffer names."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..driver.kernel_parameters import POINTER, TENSOR_MAP, Parameter, TensorMap


class _At:
    """Stand-in for a tensor at an address."""

    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def parameters_at(recorded: Sequence[Sequence[Any]], places: Mapping[str, int]) -> list[Parameter]:
    """Return parameters with addresses for names; `recorded` is from a checked plan, `places` has every buffer."""
    return [Parameter(kind, _value(kind, value, places)) for kind, value in recorded]


def _value(kind: str, value: Any, places: Mapping[str, int]) -> Any:
    if kind == POINTER:
        return None if value is None else places[value[0]] + value[1]
    if kind != TENSOR_MAP:
        return value
    buffer, offset, element_type, swizzle, shape, strides_bytes, box, nan_padding = value
    return TensorMap(
        base=_At(places[buffer] + offset),
        element_type=element_type,
        swizzle=swizzle,
        shape=tuple(shape),
        strides_bytes=tuple(strides_bytes),
        box=tuple(box),
        nan_padding=nan_padding,
    )

"""Parameters of a Triton kernel: the arguments of a launch as the compiled kernel's flat list.

Triton's own launcher is C code made for each signature by the system's compiler. This one follows the same rules (read
in Triton 3.6 and 3.9) in Python:

* An argument whose specialised type is `constexpr` is compiled in and dropped: declared constants, integers equal to
  1, None.
* Tuples are flattened, and numbers take the size of their type.
* A host `TensorDescriptor` becomes a tensor map with its shape and strides.
* Two pointers to scratch memory end the list.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CONSTEXPR = "constexpr"
DESCRIPTOR = "tensordesc"
POINTER = "ptr"
TENSOR_MAP = "map"
TENSOR_MAP_BYTES = 128
HALVES = frozenset({"fp16", "bf16"})
FLOATS = HALVES | {"fp32", "f32", "fp64"}
_TF32 = 11
# the device's codes of element types, where the host's differ
_HOST_TYPES = {8: 10, 9: 8, 10: 9}
_C_TYPES: Mapping[str, type[Any]] = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "f32": ctypes.c_float,
    "fp64": ctypes.c_double,
    POINTER: ctypes.c_uint64,
}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A host tensor descriptor as arguments of the driver; dimensions go from the innermost outwards."""

    base: Any
    """The tensor, or its address."""
    element_type: int
    """The driver's code."""
    swizzle: int
    """The driver's code."""
    shape: tuple[int, ...]
    """Extents in elements."""
    strides_bytes: tuple[int, ...]
    """Strides without the innermost, which is 1 element."""
    box: tuple[int, ...]
    """Extents of a block in elements."""
    nan_padding: bool
    """Elements outside the tensor read as NaN instead of 0."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled kernel."""

    kind: str
    """A Triton type, `ptr`, or `map` for a `TensorMap`."""
    value: Any
    """A number, a `TensorMap`, or for `ptr` a tensor, a plain address or None."""


class Packing:
    """Conversion of one compiled kernel's arguments into its parameters; made once, used for every launch."""

    def __init__(self, signature: Sequence[Any], tensor_maps: Sequence[Mapping[str, Any]] | None) -> None:
        """Take the specialised types in order (nested tuples as they are) and the metadata of each tensor map."""
        self._signature = tuple(signature)
        self._tensor_maps = tuple(tensor_maps or ())

    def __call__(self, arguments: Sequence[Any]) -> list[Parameter]:
        """Return the parameters for the bound arguments of a launch, without the scratch pointers that end the list.

        Raises `ValueError` if the arguments do not fit the signature, or are not supported by this launcher.
        """
        if len(arguments) != len(self._signature):
            raise ValueError(f"a kernel with {len(self._signature)} arguments was given {len(arguments)}")
        return list(_flatten(self._signature, arguments, iter(self._tensor_maps)))


def _flatten(types: Sequence[Any], values: Sequence[Any], maps: Iterator[Mapping[str, Any]]) -> Iterator[Parameter]:
    for kind, value in zip(types, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flatten(kind, tuple(value), maps)
        elif kind.startswith(DESCRIPTOR):
            yield from _descriptor(value, kind, next(maps, None))
        elif kind.startswith("*"):
            yield Parameter(POINTER, value)
        elif kind != CONSTEXPR:
            yield Parameter(kind, getattr(value, "value", value))


def _descriptor(descriptor: Any, kind: str, meta: Mapping[str, Any] | None) -> Iterator[Parameter]:
    shape = [int(extent) for extent in descriptor.shape]
    strides = [int(stride) for stride in descriptor.strides]
    if meta is None:  # lowered to plain pointers; shape and strides are passed twice
        yield Parameter(POINTER, descriptor.base)
        yield from (Parameter("i64", number) for number in (*shape, *strides))
        yield Parameter("i1", descriptor.padding == "nan")
        if hasattr(descriptor, "round_f32_to_tf32"):
            yield Parameter("i1", descriptor.round_f32_to_tf32)
    else:
        if kind.startswith(DESCRIPTOR + "_im2col") or meta.get("is_im2col"):
            raise ValueError("im2col tensor descriptors cannot be used here; use tiled ones")
        yield Parameter(TENSOR_MAP, _tensor_map(descriptor, shape, strides, meta))
    yield from (Parameter("i32", extent) for extent in shape)
    yield from (Parameter("i64", stride) for stride in strides)


def _tensor_map(descriptor: Any, shape: list[int], strides: list[int], meta: Mapping[str, Any]) -> TensorMap:
    element_type = _HOST_TYPES.get(meta["elem_type"], meta["elem_type"])
    if getattr(descriptor, "round_f32_to_tf32", False):
        element_type = _TF32
    extents = [*shape[:-1], 2 * shape[-1]] if meta["fp4_padded"] else shape
    return TensorMap(
        base=descriptor.base,
        element_type=element_type,
        swizzle=meta["swizzle"],
        shape=tuple(reversed(extents)),
        strides_bytes=tuple(meta["elem_size"] * stride for stride in reversed(strides[:-1])),
        box=tuple(reversed([int(extent) for extent in meta["block_size"]])),
        nan_padding=descriptor.padding == "nan",
    )


class Packed:
    """Parameters in memory, as the driver takes them; keep this object until the launch is queued."""

    def __init__(self, parameters: Sequence[Parameter], encode: Callable[[TensorMap, int], None]) -> None:
        """Lay the parameters out. `encode(map, address)` writes the 128 bytes of a tensor map, aligned to 128."""
        self._kept = [_cell(parameter, encode) for parameter in parameters]
        self.sizes = [
            TENSOR_MAP_BYTES if parameter.kind == TENSOR_MAP else ctypes.sizeof(cell)
            for parameter, cell in zip(parameters, self._kept, strict=True)
        ]
        addresses = [
            _aligned(cell) if parameter.kind == TENSOR_MAP else ctypes.addressof(cell)
            for parameter, cell in zip(parameters, self._kept, strict=True)
        ]
        self.addresses = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def number(kind: str, value: Any) -> int | float:
    """Return a number as a kernel with a parameter of this type gets it, but for the rounding of half precision.

    Raises:
        ValueError: the type is not supported.
        OverflowError: the number is too large for a float of 16 bits.
    """
    if kind == "fp16":
        struct.pack("<e", value)
    if kind in HALVES:
        return float(value)
    if kind == POINTER or kind not in _C_TYPES:
        raise ValueError(f"an argument of type {kind} cannot be passed to a kernel here")
    passed: int | float = _C_TYPES[kind](value).value
    return passed


def size_bytes(kind: str) -> int:
    """Return the size of a parameter of a supported type."""
    if kind == TENSOR_MAP:
        return TENSOR_MAP_BYTES
    return 2 if kind in HALVES else ctypes.sizeof(_C_TYPES[kind])


def _cell(parameter: Parameter, encode: Callable[[TensorMap, int], None]) -> Any:
    kind, value = parameter.kind, parameter.value
    if kind == TENSOR_MAP:
        room = (ctypes.c_char * (2 * TENSOR_MAP_BYTES))()
        encode(value, _aligned(room))
        return room
    if kind == "fp16":
        return ctypes.c_uint16(int.from_bytes(struct.pack("<e", value), "little"))
    if kind == "bf16":  # cut off, not rounded, as Triton does
        return ctypes.c_uint16(int.from_bytes(bytes(ctypes.c_float(value))[2:], "little"))
    if kind not in _C_TYPES:
        raise ValueError(f"an argument of type {kind} cannot be passed to a kernel here")
    return _C_TYPES[kind](address(value) if kind == POINTER else value)


def address(value: Any) -> int:
    """Return the address of a pointer argument: a tensor's first element, a plain address, or 0 for None."""
    if value is None:
        return 0
    return int(value if isinstance(value, int) else value.data_ptr())


def _aligned(room: Any) -> int:
    start = ctypes.addressof(room)
    return start + -start % TENSOR_MAP_BYTES

"""How arguments become parameters, against the rules read in Triton's own launchers."""

import ctypes
import math
import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from evokernel.evaluate.inside.driver.kernel_parameters import Packed, Packing, Parameter, TensorMap


@dataclass
class Pointer:
    place: int

    def data_ptr(self) -> int:
        return self.place


@dataclass
class Descriptor:
    base: Pointer
    shape: list[int]
    strides: list[int]
    padding: str = "zero"


@dataclass
class NewDescriptor(Descriptor):
    round_f32_to_tf32: bool = False


META: dict[str, Any] = {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [32, 64], "fp4_padded": False}


@dataclass
class Written:
    maps: list[TensorMap] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)

    def __call__(self, tensor_map: TensorMap, address: int) -> None:
        self.maps.append(tensor_map)
        self.addresses.append(address)
        ctypes.memset(address, 7, 128)


def kinds(parameters: list[Parameter]) -> list[str]:
    return [parameter.kind for parameter in parameters]


def read(packed: Packed, place: int, size: int) -> bytes:
    address = packed.addresses[place]
    assert address is not None
    return ctypes.string_at(address, size)


def test_what_is_compiled_in_is_dropped():
    packing = Packing(["*fp32", "constexpr", "i32", "constexpr"], None)
    assert packing([Pointer(64), None, 5, 1]) == [Parameter("ptr", Pointer(64)), Parameter("i32", 5)]


def test_tuples_are_flattened():
    packing = Packing([("i32", ("*bf16", "constexpr")), "u1"], None)
    assert kinds(packing([(3, (Pointer(0), 1)), True])) == ["i32", "ptr", "u1"]


def test_wrapped_constants_are_unwrapped():
    assert Packing(["i64"], None)([SimpleNamespace(value=9)]) == [Parameter("i64", 9)]


@pytest.mark.parametrize(("types", "values"), [(["i32"], [1, 2]), ([("i32", "i32")], [(1,)])])
def test_a_wrong_number_of_arguments_is_an_error(types: list[Any], values: list[Any]):
    with pytest.raises(ValueError, match="argument"):
        Packing(types, None)(values)


def test_a_host_descriptor_is_a_map_with_shape_and_strides():
    (tensor_map, *rest) = Packing(["tensordesc<bf16[32, 64]>"], [META])([Descriptor(Pointer(256), [100, 64], [64, 1])])
    assert tensor_map.value == TensorMap(
        base=Pointer(256),
        element_type=9,
        swizzle=3,
        shape=(64, 100),
        strides_bytes=(128,),
        box=(64, 32),
        nan_padding=False,
    )
    assert rest == [Parameter("i32", 100), Parameter("i32", 64), Parameter("i64", 64), Parameter("i64", 1)]


def test_a_descriptor_without_a_map_is_taken_apart():
    old = Packing(["tensordesc<fp32[8, 8]>"], None)([Descriptor(Pointer(0), [8, 8], [8, 1], "nan")])
    assert kinds(old) == ["ptr", *["i64"] * 4, "i1", "i32", "i32", "i64", "i64"]
    assert old[5].value is True
    new = Packing(["tensordesc<fp32[8, 8]>"], None)([NewDescriptor(Pointer(0), [8, 8], [8, 1])])
    assert kinds(new) == ["ptr", *["i64"] * 4, "i1", "i1", "i32", "i32", "i64", "i64"]


def test_variants_of_maps():
    tf32 = NewDescriptor(Pointer(0), [8, 8], [8, 1], "nan", round_f32_to_tf32=True)
    (found, *_) = Packing(["tensordesc<fp32[8, 8]>"], [META])([tf32])
    assert (found.value.element_type, found.value.nan_padding) == (11, True)
    (padded, *_) = Packing(["tensordesc<u8[8, 8]>"], [{**META, "fp4_padded": True}])([tf32])
    assert padded.value.shape == (16, 8)
    with pytest.raises(ValueError, match="im2col"):
        Packing(["tensordesc_im2col<fp16[8, 8]>"], [META])([tf32])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("i32", -2, struct.pack("<i", -2)),
        ("i64", 2**40, struct.pack("<q", 2**40)),
        ("u64", 2**64 - 1, b"\xff" * 8),
        ("i8", -1, b"\xff"),
        ("u16", 65535, b"\xff\xff"),
        ("u1", True, b"\x01"),
        ("i1", False, b"\x00"),
        ("fp32", 0.5, struct.pack("<f", 0.5)),
        ("fp32", 1e300, struct.pack("<f", math.inf)),
        ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("fp16", 1.5, struct.pack("<e", 1.5)),
        ("bf16", 1.0, b"\x80\x3f"),
        ("ptr", None, b"\0" * 8),
        ("ptr", 1 << 40, struct.pack("<Q", 1 << 40)),
        ("ptr", Pointer(640), struct.pack("<Q", 640)),
    ],
)
def test_numbers_have_the_size_of_their_type(kind: str, value: Any, expected: bytes):
    packed = Packed([Parameter(kind, value)], Written())
    assert read(packed, 0, len(expected)) == expected


def test_maps_are_aligned_and_in_their_place():
    written = Written()
    (tensor_map, *_) = Packing(["tensordesc<bf16[32, 64]>"], [META])([Descriptor(Pointer(0), [64, 64], [64, 1])])
    packed = Packed([Parameter("i32", 4), tensor_map, tensor_map], written)
    assert written.maps == [tensor_map.value] * 2
    assert all(address % 128 == 0 for address in written.addresses)
    assert list(packed.addresses)[1:] == written.addresses
    assert read(packed, 2, 128) == b"\7" * 128


def test_an_unknown_type_is_an_error():
    with pytest.raises(ValueError, match="fp8e5"):
        Packed([Parameter("fp8e5", 1.0)], Written())


def test_no_parameters_are_fine():
    assert len(Packed([], Written()).addresses) == 1

"""Compiled kernels on the GPU through the CUDA driver alone: load, look at, launch. No compiler, no C code of ours.

The context is torch's: it must be current when these functions are called. Structures and constants are those of
cuda.h, the same since CUDA 12.
"""

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from .triton_params import Packed, Parameter, TensorMap

STATIC_SHARED_BYTES = 48 << 10
_MAX_THREADS, _STATIC_SHARED, _LOCAL_BYTES, _REGISTERS = 0, 1, 3, 4  # CU_FUNC_ATTRIBUTE_*
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
_COOPERATIVE, _CLUSTER, _CLUSTER_POLICY, _PROGRAMMATIC = 2, 4, 5, 6  # CU_LAUNCH_ATTRIBUTE_*
_SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD
_INVALID_VALUE = 1  # CUDA_ERROR_INVALID_VALUE
_MAX_RANK = 5
_NOT_INTERLEAVED, _PROMOTE_128_BYTES, _NAN_FILL = 0, 2, 1
_LARGEST_PORTABLE_CLUSTER = 8


class CudaLaunchError(RuntimeError):
    """The CUDA driver refused to load or launch a kernel; the message starts with "CUDA error"."""


class _AttributeValue(ctypes.Union):
    """CUlaunchAttributeValue; the members that are used."""

    _fields_ = (("words", c_uint32 * 3), ("pad", ctypes.c_char * 64), ("align", c_uint64))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_uint32), ("pad", c_uint32), ("value", _AttributeValue))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("count", c_uint),
    )


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuFuncGetParamInfo": (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "cuLaunchKernelEx": (POINTER(_Config), c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint32, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
        *(POINTER(c_uint32), POINTER(c_uint32), c_int, c_int, c_int, c_int),
    ),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kernel is launched: programs, warps of each, programs in a cluster, dynamic shared memory, and modes."""

    grid: tuple[int, int, int]
    num_warps: int
    num_ctas: int
    shared_bytes: int
    cooperative: bool
    programmatic: bool


class Kernel:
    """One function of a loaded module, with what the driver says about it."""

    def __init__(self, image: bytes, name: str, shared_bytes: int) -> None:
        """Load a cubin into the current context. Raises `CudaLaunchError` where the driver refuses."""
        self.name = name
        self._module = c_void_p()
        self._function = c_void_p()
        _call("cuModuleLoadData", byref(self._module), image)
        _call("cuModuleGetFunction", byref(self._function), self._module, name.encode())
        self.registers = self._attribute(_REGISTERS)
        self.local_bytes = self._attribute(_LOCAL_BYTES)
        self.max_threads = self._attribute(_MAX_THREADS)
        if shared_bytes + self._attribute(_STATIC_SHARED) > STATIC_SHARED_BYTES:
            _call("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED, shared_bytes)
        self._parameters = self._count_parameters()
        self._non_portable = False

    def unload(self) -> None:
        """Give the module back to the driver; the kernel must not be launched again."""
        _call("cuModuleUnload", self._module)

    def launch(self, shape: Shape, parameters: Sequence[Parameter], stream: int) -> None:
        """Queue one launch on a stream; an empty grid launches nothing.

        Raises:
            CudaLaunchError: there are more or fewer parameters than the kernel has, or the driver refuses.
        """
        if len(parameters) != self._parameters:
            raise CudaLaunchError(
                f"CUDA error: kernel {self.name} takes {self._parameters} parameters and was given {len(parameters)}"
            )
        if 0 in shape.grid:
            return
        if shape.num_ctas > _LARGEST_PORTABLE_CLUSTER and not self._non_portable:
            _call("cuFuncSetAttribute", self._function, _NON_PORTABLE_CLUSTER, 1)
            self._non_portable = True
        packed = Packed(parameters, encode)
        attributes = list(_attributes(shape))
        row = (_Attribute * max(len(attributes), 1))(*attributes)
        config = _Config(
            (shape.grid[0] * shape.num_ctas, shape.grid[1], shape.grid[2]),
            (32 * shape.num_warps, 1, 1),
            shape.shared_bytes,
            stream,
            row,
            len(attributes),
        )
        _call("cuLaunchKernelEx", byref(config), self._function, packed.addresses, None)

    def _attribute(self, number: int) -> int:
        value = c_int()
        _call("cuFuncGetAttribute", byref(value), number, self._function)
        return value.value

    def _count_parameters(self) -> int:
        """Ask for each parameter in turn; the driver has no other way to say how many there are."""
        offset, size = c_size_t(), c_size_t()
        count = 0
        while True:
            code = _driver().cuFuncGetParamInfo(self._function, count, byref(offset), byref(size))
            if code == _INVALID_VALUE:
                return count
            _check("cuFuncGetParamInfo", code)
            count += 1


def encode(tensor_map: TensorMap, address: int) -> None:
    """Write the 128 bytes of a tensor map to an address aligned to 128. Raises `CudaLaunchError` for a bad one."""
    rank = len(tensor_map.shape)
    if not len(tensor_map.box) == rank <= _MAX_RANK:
        raise CudaLaunchError(f"CUDA error: a tensor map of rank {rank} with a block of rank {len(tensor_map.box)}")
    _call(
        "cuTensorMapEncodeTiled",
        address,
        tensor_map.element_type,
        rank,
        tensor_map.base.data_ptr(),
        (c_uint64 * _MAX_RANK)(*tensor_map.shape),
        (c_uint64 * _MAX_RANK)(*tensor_map.strides_bytes),
        (c_uint32 * _MAX_RANK)(*tensor_map.box),
        (c_uint32 * _MAX_RANK)(*[1] * _MAX_RANK),
        _NOT_INTERLEAVED,
        tensor_map.swizzle,
        _PROMOTE_128_BYTES,
        _NAN_FILL if tensor_map.nan_padding else 0,
    )


def _attributes(shape: Shape) -> Iterable[_Attribute]:
    if shape.programmatic:
        yield _attribute(_PROGRAMMATIC, 1)
    if shape.cooperative:
        yield _attribute(_COOPERATIVE, 1)
    if shape.num_ctas > 1:
        yield _attribute(_CLUSTER, shape.num_ctas, 1, 1)
        yield _attribute(_CLUSTER_POLICY, _SPREAD)


def _attribute(number: int, *words: int) -> _Attribute:
    attribute = _Attribute(id=number)
    for place, word in enumerate(words):
        attribute.value.words[place] = word
    return attribute


@cache
def _driver() -> ctypes.CDLL:
    library = ctypes.CDLL("libcuda.so.1")
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    return library


def _call(name: str, *arguments: Any) -> None:
    _check(name, getattr(_driver(), name)(*arguments))


def _check(name: str, code: int) -> None:
    if code:
        text = c_char_p()
        _driver().cuGetErrorString(code, byref(text))
        raise CudaLaunchError(f"CUDA error {code} in {name}: {(text.value or b'unknown error').decode()}")

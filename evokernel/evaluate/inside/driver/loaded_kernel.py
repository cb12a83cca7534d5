"""Compiled kernels on the GPU through the CUDA driver alone: load, look at, launch. No compiler, no C code of ours.

The context is torch's: it must be current when these functions are called. Structures and constants are those of
cuda.h, the same since CUDA 12.
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from .kernel_parameters import Packed, Parameter, TensorMap

STATIC_SHARED_BYTES = 48 << 10
_MAX_THREADS, _STATIC_SHARED, _LOCAL_BYTES, _REGISTERS = 0, 1, 3, 4  # CU_FUNC_ATTRIBUTE_*
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
_COOPERATIVE, _CLUSTER, _CLUSTER_POLICY, _PROGRAMMATIC = 2, 4, 5, 6  # CU_LAUNCH_ATTRIBUTE_*
_SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD
_NO_MORE = 1  # CUDA_ERROR_INVALID_VALUE
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
    """How a kernel is launched: clusters, threads of a block, blocks of a cluster, dynamic shared memory, and modes.

    `grid` counts clusters, which lie along x: the driver is asked for `grid[0] * cluster` blocks there. A `cluster` of
    1 is none.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: int
    shared_bytes: int
    cooperative: bool
    programmatic: bool


class LoadedModule:
    """Machine code in the current context; the kernels of one module share its variables."""

    def __init__(self, image: bytes) -> None:
        """Load a cubin, or PTX text that ends with a NUL. Raises `CudaLaunchError` where the driver refuses."""
        self.handle = c_void_p()
        call("cuModuleLoadData", byref(self.handle), image)

    def unload(self) -> None:
        """Give the module back to the driver; its kernels must not be launched again."""
        call("cuModuleUnload", self.handle)


class LoadedKernel:
    """One function of a loaded module, with what the driver says about it."""

    def __init__(self, module: LoadedModule, name: str, shared_bytes: int) -> None:
        """Find it, and allow it so much dynamic shared memory. Raises `CudaLaunchError` where the driver refuses."""
        self.name = name
        self.module = module
        self._function = c_void_p()
        call("cuModuleGetFunction", byref(self._function), module.handle, name.encode())
        self.registers = self._attribute(_REGISTERS)
        self.local_bytes = self._attribute(_LOCAL_BYTES)
        self.max_threads = self._attribute(_MAX_THREADS)
        if shared_bytes + self._attribute(_STATIC_SHARED) > STATIC_SHARED_BYTES:
            call("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED, shared_bytes)
        self.parameter_bytes = tuple(self._measure_parameters())
        self._non_portable = False

    def launch(self, shape: Shape, parameters: Sequence[Parameter], stream: int) -> None:
        """Queue one launch on a stream; an empty grid launches nothing. Raises as `bind`."""
        self.bind(shape, parameters).launch(stream)

    def bind(self, shape: Shape, parameters: Sequence[Parameter]) -> "PreparedLaunch":
        """Return a launch with its parameters, to be made any number of times.

        Raises:
            CudaLaunchError: the kernel has more, fewer, or larger parameters, or the driver refuses the shape.
        """
        if len(parameters) != len(self.parameter_bytes):
            raise CudaLaunchError(
                f"CUDA error: kernel {self.name} takes {len(self.parameter_bytes)} parameters and was given "
                f"{len(parameters)}"
            )
        packed = Packed(parameters, encode)
        for number, (due, given) in enumerate(zip(self.parameter_bytes, packed.sizes, strict=True)):
            if due != given:
                raise CudaLaunchError(
                    f"CUDA error: parameter {number} of kernel {self.name} has {due} bytes and was given {given}"
                )
        if shape.cluster > _LARGEST_PORTABLE_CLUSTER and not self._non_portable:
            call("cuFuncSetAttribute", self._function, _NON_PORTABLE_CLUSTER, 1)
            self._non_portable = True
        return PreparedLaunch(self._function, shape, packed)

    def _attribute(self, number: int) -> int:
        value = c_int()
        call("cuFuncGetAttribute", byref(value), number, self._function)
        return value.value

    def _measure_parameters(self) -> Iterable[int]:
        """Ask for each parameter in turn; the driver has no other way to say how many there are."""
        offset, size = c_size_t(), c_size_t()
        number = 0
        while (code := driver().cuFuncGetParamInfo(self._function, number, byref(offset), byref(size))) != _NO_MORE:
            _check("cuFuncGetParamInfo", code)
            yield size.value
            number += 1


class PreparedLaunch:
    """One launch of a kernel: its shape and its parameters, laid out in memory once."""

    def __init__(self, function: c_void_p, shape: Shape, packed: Packed) -> None:
        self._function = function
        self._empty = 0 in shape.grid
        self._packed = packed
        attributes = list(_attributes(shape))
        self._row = (_Attribute * max(len(attributes), 1))(*attributes)
        x, y, z = shape.grid
        blocks = (x * shape.cluster, y, z)
        self._config = _Config(blocks, shape.block, shape.shared_bytes, None, self._row, len(attributes))

    def launch(self, stream: int) -> None:
        """Queue the launch on a stream; an empty grid launches nothing. Raises `CudaLaunchError`."""
        if not self._empty:
            self._config.stream = stream
            call("cuLaunchKernelEx", byref(self._config), self._function, self._packed.addresses, None)


def encode(tensor_map: TensorMap, address: int) -> None:
    """Write the 128 bytes of a tensor map to an address aligned to 128. Raises `CudaLaunchError` for a bad one."""
    rank = len(tensor_map.shape)
    if not len(tensor_map.box) == rank <= _MAX_RANK:
        raise CudaLaunchError(f"CUDA error: a tensor map of rank {rank} with a block of rank {len(tensor_map.box)}")
    call(
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
    if shape.cluster > 1:
        yield _attribute(_CLUSTER, shape.cluster, 1, 1)
        yield _attribute(_CLUSTER_POLICY, _SPREAD)


def _attribute(number: int, *words: int) -> _Attribute:
    attribute = _Attribute(id=number)
    for place, word in enumerate(words):
        attribute.value.words[place] = word
    return attribute


def declare(signatures: Mapping[str, Sequence[Any]]) -> None:
    """Let functions of the driver be called: their argument types by name; all return a CUresult."""
    for name, arguments in signatures.items():
        function = getattr(driver(), name)
        function.argtypes, function.restype = arguments, c_int


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises `CudaLaunchError` for any result but success."""
    _check(name, getattr(driver(), name)(*arguments))


@cache
def driver() -> ctypes.CDLL:
    """Return the CUDA driver's library."""
    library = ctypes.CDLL("libcuda.so.1")
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    return library


def _check(name: str, code: int) -> None:
    if code:
        text = c_char_p()
        driver().cuGetErrorString(code, byref(text))
        raise CudaLaunchError(f"CUDA error {code} in {name}: {(text.value or b'unknown error').decode()}")

"""The CUDA driver by ctypes: structures, constants and function types of cuda.h, and calls.

They are the same since CUDA 12. A structure that only one module fills is passed by address.
"""

import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

MAX_THREADS, STATIC_SHARED, LOCAL_BYTES, REGISTERS = 0, 1, 3, 4  # CU_FUNC_ATTRIBUTE_*
MAX_DYNAMIC_SHARED, PREFERRED_CARVEOUT, NON_PORTABLE_CLUSTER = 8, 9, 14
COOPERATIVE, CLUSTER, CLUSTER_POLICY, PROGRAMMATIC = 2, 4, 5, 6  # CU_LAUNCH_ATTRIBUTE_*
LARGEST_PORTABLE_CLUSTER = 8
_NO_MORE = 1  # CUDA_ERROR_INVALID_VALUE
_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED


class CudaLaunchError(RuntimeError):
    """The CUDA driver refused to load or launch a kernel; the message starts with "CUDA error"."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with a value of 64 bytes, of which three words are used."""

    _fields_ = (("id", c_uint32), ("pad", c_uint32), ("words", c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


# Device addresses and allocation handles are 64-bit integers.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuInit": (c_uint,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuCtxResetPersistingL2Cache": (),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuModuleGetGlobal_v2": (POINTER(c_uint64), POINTER(c_size_t), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuFuncGetParamInfo": (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "cuLaunchKernelEx": (POINTER(LaunchConfig), c_void_p, POINTER(c_void_p), c_void_p),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint32, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
        *(POINTER(c_uint32), POINTER(c_uint32), c_int, c_int, c_int, c_int),
    ),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuStreamGetCaptureInfo_v2": (
        *(c_void_p, POINTER(c_int), POINTER(c_uint64), POINTER(c_void_p)),
        *(POINTER(POINTER(c_void_p)), POINTER(c_size_t)),
    ),
    "cuStreamUpdateCaptureDependencies": (c_void_p, POINTER(c_void_p), c_size_t, c_uint),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecordWithFlags": (c_void_p, c_void_p, c_uint),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8Async": (c_uint64, ctypes.c_uint8, c_size_t, c_void_p),
    "cuMemsetD16Async": (c_uint64, ctypes.c_uint16, c_size_t, c_void_p),
    "cuMemsetD32Async": (c_uint64, c_uint32, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), c_void_p, c_int),
    "cuMemCreate": (POINTER(c_uint64), c_size_t, c_void_p, c_uint64),
    "cuMemRelease": (c_uint64,),
    "cuMemExportToShareableHandle": (c_void_p, c_uint64, c_int, c_uint64),
    "cuMemImportFromShareableHandle": (POINTER(c_uint64), c_void_p, c_int),
    "cuMemAddressReserve": (POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, c_void_p, c_size_t),
}


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises `CudaLaunchError` for any result but success."""
    _check(name, function(name)(*arguments))


def call_where_supported(name: str, *arguments: Any) -> None:
    """Call a function of the driver that some devices lack; do nothing there. Raises as `call`."""
    code = function(name)(*arguments)
    if code != _NOT_SUPPORTED:
        _check(name, code)


@cache
def function(name: str) -> Callable[..., int]:
    """Return a function of the driver, which returns a CUresult. Raises `OSError` where there is no driver."""
    found = getattr(_library(), name)
    found.argtypes, found.restype = _SIGNATURES[name], c_int
    return found  # type: ignore[no-any-return]


def words_of(code: int, asked: str = "cuGetErrorString") -> str:
    """Return the driver's text for a CUresult, or its name by `cuGetErrorName`; empty for an unknown one."""
    text = c_char_p()
    function(asked)(code, byref(text))
    return (text.value or b"").decode()


def parameter_bytes(kernel: c_void_p) -> Iterator[int]:
    """Yield the size of each parameter of a kernel: the driver has no call for their number."""
    offset, size, number = c_size_t(), c_size_t(), 0
    ask = function("cuFuncGetParamInfo")
    while (code := ask(kernel, number, byref(offset), byref(size))) != _NO_MORE:
        _check("cuFuncGetParamInfo", code)
        yield size.value
        number += 1


def launch_attribute(number: int, *words: int) -> LaunchAttribute:
    """Return a launch attribute with the words of its value."""
    return LaunchAttribute(number, 0, (c_uint32 * 16)(*words))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(name: str, code: int) -> None:
    if code:
        raise CudaLaunchError(f"CUDA error {code} in {name}: {words_of(code) or 'unknown error'}")

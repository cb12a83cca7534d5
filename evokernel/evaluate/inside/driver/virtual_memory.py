"""Device memory that processes share by file descriptor, through the CUDA driver's virtual memory management.

All calls use device 0 of those visible to the process. A read-only mapping is read-only in the GPU's page tables: a
kernel that writes through it ends its own context and changes nothing. The holder of the descriptor chooses the
protection, though, so a read-only mapping does not stop hostile *host* code.
"""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p
from functools import cache
from typing import Any

from .cuda_driver import function, words_of

DEVICE = 0
PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
ON_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
AS_DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
READ, READ_WRITE = 1, 3  # CU_MEM_ACCESS_FLAGS_PROT_*
MINIMUM = 0  # CU_MEM_ALLOC_GRANULARITY_MINIMUM


class CudaError(OSError):
    """The driver is missing or refused a call; the message names the call and the driver's error."""

    code = 0
    """The driver's CUresult; 0 where there is no driver."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class AllocationFlags(ctypes.Structure):
    """The last member of CUmemAllocationProp."""

    _fields_ = (("compression", c_uint8), ("rdma_capable", c_uint8), ("usage", c_uint16), ("reserved", c_uint8 * 4))


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32_metadata", c_void_p),
        ("flags", AllocationFlags),
    )


class MemoryAccess(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


def retain_primary_context() -> None:
    """Make the device's primary context, the one torch uses, current in this thread; create it if needed."""
    _call("cuCtxSetCurrent", _primary_context(DEVICE))


def synchronize() -> None:
    """Wait until all work that this process queued on the device is done. Raises its errors."""
    retain_primary_context()
    _call("cuCtxSynchronize")


def granularity() -> int:
    """Return the bytes that allocation sizes must be a multiple of."""
    retain_primary_context()
    step = c_size_t()
    _call("cuMemGetAllocationGranularity", byref(step), byref(_properties()), MINIMUM)
    return step.value


def create(size_bytes: int, *, shared: bool = True) -> int:
    """Allocate device memory and return its handle; `shared` memory can be exported.

    The size is a multiple of `granularity()`.
    """
    retain_primary_context()
    handle, properties = c_uint64(), _properties()
    properties.handle_types = AS_DESCRIPTOR if shared else 0
    _call("cuMemCreate", byref(handle), size_bytes, byref(properties), 0)
    return handle.value


def export(handle: int) -> int:
    """Return a new file descriptor of an allocation; it keeps the memory alive until it is closed."""
    descriptor = c_int(-1)
    _call("cuMemExportToShareableHandle", byref(descriptor), handle, AS_DESCRIPTOR, 0)
    return descriptor.value


def import_fd(descriptor: int) -> int:
    """Return the handle of the allocation behind a descriptor, which may be closed afterwards."""
    retain_primary_context()
    handle = c_uint64()
    _call("cuMemImportFromShareableHandle", byref(handle), c_void_p(descriptor), AS_DESCRIPTOR)
    return handle.value


def release(handle: int) -> None:
    """Release a handle. The memory stays until its last mapping and its last descriptor are gone."""
    _call("cuMemRelease", handle)


def map(handle: int, size_bytes: int, *, writable: bool) -> int:
    """Map a whole allocation and return its address."""
    address = reserve(size_bytes)
    try:
        place(address, handle, size_bytes, writable=writable)
    except CudaError:
        free_range(address, size_bytes)
        raise
    return address


def unmap(address: int, size_bytes: int) -> None:
    """Unmap memory, which nothing on the device may use any more."""
    withdraw(address, size_bytes)
    free_range(address, size_bytes)


def reserve(size_bytes: int) -> int:
    """Return an address with that much free room behind it, for `place`."""
    address = c_uint64()
    _call("cuMemAddressReserve", byref(address), size_bytes, 0, 0, 0)
    return address.value


def place(address: int, handle: int, size_bytes: int, *, writable: bool) -> None:
    """Map a whole allocation at a reserved address."""
    _call("cuMemMap", address, size_bytes, 0, handle, 0)
    access = MemoryAccess(Location(ON_DEVICE, DEVICE), READ_WRITE if writable else READ)
    try:
        _call("cuMemSetAccess", address, size_bytes, byref(access), 1)
    except CudaError:
        withdraw(address, size_bytes)
        raise


def withdraw(address: int, size_bytes: int) -> None:
    """Unmap memory and keep its address reserved."""
    _call("cuMemUnmap", address, size_bytes)


def free_range(address: int, size_bytes: int) -> None:
    """Give a reserved address back, at which nothing is mapped."""
    _call("cuMemAddressFree", address, size_bytes)


class _Exposed:
    """Device memory in the array libraries' common description; does not own it."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),  # torch refuses read-only arrays; the page tables still protect them
        }


def as_bytes_tensor(address: int, size_bytes: int) -> Any:
    """Return mapped memory as a torch tensor of bytes, without a copy; valid until it is unmapped.

    Raises `CudaError` if torch made a copy.
    """
    import torch

    torch.cuda.init()
    tensor = torch.as_tensor(_Exposed(address, size_bytes), device=f"cuda:{DEVICE}")
    if tensor.data_ptr() != address:
        raise CudaError(f"torch copied device memory at {address:#x} instead of using it")
    return tensor


def _properties() -> AllocationProperties:
    return AllocationProperties(PINNED, AS_DESCRIPTOR, Location(ON_DEVICE, DEVICE))


@cache
def _primary_context(device: int) -> c_void_p:
    # Retained once in a process and never released, as torch does.
    ordinal, context = c_int(), c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", byref(ordinal), device)
    _call("cuDevicePrimaryCtxRetain", byref(context), ordinal)
    return context


def _call(name: str, *arguments: Any) -> None:
    try:
        code = function(name)(*arguments)
    except OSError as error:
        raise CudaError(f"no CUDA driver: {error}") from None
    if code:
        refused = CudaError(f"{name}: {words_of(code, 'cuGetErrorName') or f'error {code}'}")
        refused.code = code
        raise refused

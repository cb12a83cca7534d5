"""What the NVIDIA driver tells about GPUs through NVML: facts for the compiler, without a CUDA context.

NVML counts all GPUs of the machine; which of them may be used is decided here, by CUDA_VISIBLE_DEVICES.
"""

import ctypes
import os
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from evokernel.errors import HarnessError

NAME_BYTES = 96
_SUCCESS = 0


class NvmlError(HarnessError):
    """There is no NVIDIA driver, or it does not answer a question."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as a compiler sees it.

    `index` is its number in NVML, `uuid` its name in CUDA_VISIBLE_DEVICES, `capability` is 90 for 9.0, `shared_bytes`
    what one block may use of shared memory, `multiprocessors` 0 where the driver does not say.
    """

    name: str
    index: int
    uuid: str
    capability: int
    multiprocessors: int
    shared_bytes: int
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    memory_bytes: int
    driver: str


@dataclass(frozen=True, slots=True)
class _Generation:
    shared_bytes: int
    threads: int
    cores: int


_REGISTERS = 65536  # the same since Maxwell
# By compute capability (CUDA C++ programming guide, "Technical specifications per compute capability").
_SMALL = _Generation(shared_bytes=99 << 10, threads=1536, cores=128)
_LARGE = _Generation(shared_bytes=227 << 10, threads=2048, cores=128)
_GENERATIONS = {
    70: _Generation(shared_bytes=96 << 10, threads=2048, cores=64),
    72: _Generation(shared_bytes=96 << 10, threads=2048, cores=64),
    75: _Generation(shared_bytes=64 << 10, threads=1024, cores=64),
    80: _Generation(shared_bytes=163 << 10, threads=2048, cores=64),
    86: _SMALL,
    87: _Generation(shared_bytes=163 << 10, threads=1536, cores=128),
    89: _SMALL,
    90: _LARGE,
    100: _LARGE,
    103: _LARGE,
    110: _Generation(shared_bytes=227 << 10, threads=1536, cores=128),
    120: _SMALL,
    121: _SMALL,
}


def visible_gpu() -> GpuFacts | None:
    """Return the GPU that CUDA programs started here would use first, or None. Takes milliseconds and never raises."""
    return next(iter(visible_gpus()), None)


def visible_gpus() -> tuple[GpuFacts, ...]:
    """Return the GPUs that CUDA programs started here may use, in their order. Takes milliseconds and never raises.

    A part of a GPU (MIG) counts as none: clocks and neighbours on it cannot be told apart.
    """
    return _gpus_named(os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def gpu_count() -> int:
    """Return how many GPUs the machine has, whoever may use them. Takes milliseconds and never raises."""
    try:
        return _count()
    except NvmlError:
        return 0


@cache
def _gpus_named(variable: str | None) -> tuple[GpuFacts, ...]:
    """Ask once in a process: each question to NVML can take milliseconds, and the answers stay the same."""
    try:
        uuids = [_uuid(index) for index in range(_count())]
        return tuple(_facts(index) for index in named(variable, uuids))
    except NvmlError:
        return ()


def alike(gpus: Sequence[GpuFacts], *, most: int | None = None) -> tuple[GpuFacts, ...]:
    """Return the GPUs of the first one's model, in their order, at most so many: one candidate may go to any of them.

    Equal names are not enough: one name is sold with several sizes of memory.
    """
    same = [gpu for gpu in gpus if _model(gpu) == _model(gpus[0])]
    return tuple(same[:most])


def _model(gpu: GpuFacts) -> tuple[object, ...]:
    return gpu.name, gpu.capability, gpu.multiprocessors, round(gpu.memory_bytes / 2**30)


def driver_version() -> str:
    """Return the driver's version. Raises `NvmlError`."""
    return _text("nvmlSystemGetDriverVersion")


def call(name: str, *arguments: Any) -> None:
    """Call an NVML function; the arguments are ctypes objects. Raises `NvmlError` naming the call."""
    library = _library()
    try:
        function = getattr(library, name)
    except AttributeError:
        raise NvmlError(f"{name} is not in this driver's NVML") from None
    code = function(*arguments)
    if code != _SUCCESS:
        raise NvmlError(f"{name}: {_meaning(library, code)}")


def handle(index: int) -> c_void_p:
    """Return NVML's handle of a GPU. Raises `NvmlError` where there is none of that number."""
    device = c_void_p()
    call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(device))
    return device


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise NvmlError(f"no NVIDIA driver: {error}") from None
    code = library.nvmlInit_v2()
    if code != _SUCCESS:
        raise NvmlError(f"nvmlInit_v2: {_meaning(library, code)}")
    return library


def _meaning(library: ctypes.CDLL, code: int) -> str:
    library.nvmlErrorString.restype = c_char_p
    text: bytes | None = library.nvmlErrorString(c_int(code))
    return (text or b"unknown error").decode(errors="replace")


def _text(name: str, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    call(name, *arguments, buffer, c_uint(NAME_BYTES))
    return buffer.value.decode(errors="replace")


def named(variable: str | None, uuids: Sequence[str]) -> list[int]:
    """Return the NVML numbers of the GPUs that a value of CUDA_VISIBLE_DEVICES names; the first bad name ends it.

    NVML sorts by bus, as CUDA does where CUDA_DEVICE_ORDER is PCI_BUS_ID, which the judge sees to. Another order, by
    speed, differs on machines with GPUs of several kinds.
    """
    if variable is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for name in map(str.strip, variable.split(",")):
        index = _number(name, uuids)
        if index is None or index in found:
            break
        found.append(index)
    return found


def _number(name: str, uuids: Sequence[str]) -> int | None:
    if name.isdecimal():
        return int(name) if int(name) < len(uuids) else None
    if name.startswith("GPU-"):
        return next((index for index, uuid in enumerate(uuids) if uuid.startswith(name)), None)
    return None


def _count() -> int:
    count = c_uint()
    call("nvmlDeviceGetCount_v2", byref(count))
    return count.value


def _uuid(index: int) -> str:
    return _text("nvmlDeviceGetUUID", handle(index))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


def _facts(index: int) -> GpuFacts:
    device, major, minor, memory = handle(index), c_int(), c_int(), _Memory()
    call("nvmlDeviceGetCudaComputeCapability", device, byref(major), byref(minor))
    call("nvmlDeviceGetMemoryInfo", device, byref(memory))
    capability = 10 * major.value + minor.value
    generation = _GENERATIONS.get(capability, _SMALL)
    return GpuFacts(
        name=_text("nvmlDeviceGetName", device),
        index=index,
        uuid=_uuid(index),
        capability=capability,
        multiprocessors=_cores(device) // generation.cores,
        shared_bytes=generation.shared_bytes,
        registers_per_multiprocessor=_REGISTERS,
        threads_per_multiprocessor=generation.threads,
        memory_bytes=memory.total,
        driver=driver_version(),
    )


def _cores(device: c_void_p) -> int:
    cores = c_uint()
    try:
        call("nvmlDeviceGetNumGpuCores", device, byref(cores))
    except NvmlError:  # drivers before 465
        return 0
    return cores.value

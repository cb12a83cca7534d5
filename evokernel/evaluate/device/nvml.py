"""Facts about GPUs from NVML, for compilers and judges, without a CUDA context.

NVML counts all GPUs of the machine; CUDA_VISIBLE_DEVICES decides here which of them are used.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from evokernel.errors import HarnessError


class NvmlError(HarnessError):
    """There is no NVIDIA driver, or it does not answer a question."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as a compiler sees it."""

    name: str
    """The model."""
    index: int
    """Its number in NVML."""
    uuid: str
    """Its name in CUDA_VISIBLE_DEVICES."""
    capability: int
    """Compute capability times 10: 90 for 9.0."""
    multiprocessors: int
    """0 where the driver does not say."""
    shared_bytes: int
    """Shared memory that one block may use."""
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    memory_bytes: int
    """Device memory."""
    driver: str
    """Version of the driver."""


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
    """Return the GPU that CUDA programs started here would use first, or None. Takes milliseconds, never raises."""
    return next(iter(visible_gpus()), None)


def visible_gpus() -> tuple[GpuFacts, ...]:
    """Return the GPUs that CUDA programs started here may use, in their order. Takes milliseconds and never raises.

    A part of a GPU (MIG) is left out: clocks and neighbours on it cannot be told apart.
    """
    return _gpus_named(os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def gpu_count() -> int:
    """Return how many GPUs the machine has, visible or not. Takes milliseconds and never raises."""
    try:
        return int(ask("nvmlDeviceGetCount"))
    except NvmlError:
        return 0


@cache
def _gpus_named(variable: str | None) -> tuple[GpuFacts, ...]:
    """Ask once in a process: each question to NVML can take milliseconds, and the answers stay the same."""
    try:
        uuids = [ask("nvmlDeviceGetUUID", handle(index)) for index in range(ask("nvmlDeviceGetCount"))]
        return tuple(_facts(index) for index in named(variable, uuids))
    except NvmlError:
        return ()


def alike(gpus: Sequence[GpuFacts], *, most: int | None = None) -> tuple[GpuFacts, ...]:
    """Return the GPUs of the first one's model, in their order, at most `most`: a candidate may go to any of them.

    Equal names are not enough: one name is sold with several sizes of memory.
    """
    same = [gpu for gpu in gpus if _model(gpu) == _model(gpus[0])]
    return tuple(same[:most])


def _model(gpu: GpuFacts) -> tuple[object, ...]:
    return gpu.name, gpu.capability, gpu.multiprocessors, round(gpu.memory_bytes / 2**30)


def ask(name: str, *arguments: Any) -> Any:
    """Return the answer of a function of NVML. Raises `NvmlError` naming the function."""
    library = _library()
    try:
        return getattr(library, name)(*arguments)
    except (library.NVMLError_FunctionNotFound, AttributeError):
        raise NvmlError(f"{name} is not in this driver's NVML") from None
    except library.NVMLError as error:
        raise NvmlError(f"{name}: {error}") from None


def handle(index: int) -> Any:
    """Return NVML's handle of a GPU. Raises `NvmlError` for an unknown number."""
    return ask("nvmlDeviceGetHandleByIndex", index)


@cache
def _library() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlError(f"nvidia-ml-py is not installed: {error}") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as error:
        raise NvmlError(f"no NVIDIA driver: {error}") from None
    except pynvml.NVMLError as error:
        raise NvmlError(f"nvmlInit: {error}") from None
    return pynvml


def named(variable: str | None, uuids: Sequence[str]) -> list[int]:
    """Return the NVML numbers of the GPUs that a value of CUDA_VISIBLE_DEVICES names; the first bad name ends it.

    NVML sorts by bus, as CUDA does where CUDA_DEVICE_ORDER is PCI_BUS_ID, which the judge sets. CUDA's default order,
    by speed, differs on machines with GPUs of several kinds.
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


def _facts(index: int) -> GpuFacts:
    device = handle(index)
    major, minor = ask("nvmlDeviceGetCudaComputeCapability", device)
    capability = 10 * major + minor
    generation = _GENERATIONS.get(capability, _SMALL)
    return GpuFacts(
        name=ask("nvmlDeviceGetName", device),
        index=index,
        uuid=ask("nvmlDeviceGetUUID", device),
        capability=capability,
        multiprocessors=_cores(device) // generation.cores,
        shared_bytes=generation.shared_bytes,
        registers_per_multiprocessor=_REGISTERS,
        threads_per_multiprocessor=generation.threads,
        memory_bytes=ask("nvmlDeviceGetMemoryInfo", device).total,
        driver=ask("nvmlSystemGetDriverVersion"),
    )


def _cores(device: Any) -> int:
    try:
        return int(ask("nvmlDeviceGetNumGpuCores", device))
    except NvmlError:  # drivers before 465
        return 0

"""Device class of a run, from its config, the workloads of its task, and this machine."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evokernel.config.run import DeviceClass, RunConfig
from evokernel.errors import ConfigError
from evokernel.evaluate.device.nvml import GpuFacts, alike, visible_gpus
from evokernel.languages.device_limits import DeviceLimits
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind
from evokernel.task import Task

_RESERVED_SHARED_BYTES = 1024  # CUDA keeps this much of the shared memory for each block
_THREADS_PER_BLOCK = 64  # a multiprocessor of 2048 threads holds 32 blocks; those of 1536 threads hold 16 to 24
_TITLES = {"cpp": "C++", "triton": "Triton", "cuda": "CUDA C++"}


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices of a machine."""

    gpu: GpuFacts | None
    """The GPU that CUDA programs use first; None without one."""
    triton: bool
    """Whether Triton is installed."""
    others: tuple[GpuFacts, ...] = ()
    """Further GPUs."""

    def gpus(self, device: DeviceClass, *, wanted: int | Literal["all"]) -> tuple[GpuFacts, ...]:
        """Return the GPUs that judge candidates of a device class: of the first one's model, at most `wanted`."""
        if device == "cpu" or self.gpu is None:
            return ()
        return alike((self.gpu, *self.others), most=None if wanted == "all" else wanted)

    def limits(self, device: DeviceClass) -> DeviceLimits | None:
        """Return the limits that kernels are compiled against: those of the GPU, None on a processor."""
        gpu = self.gpu
        if device == "cpu" or gpu is None:
            return None
        return DeviceLimits(
            capability=gpu.capability,
            shared_bytes=gpu.shared_bytes,
            multiprocessors=gpu.multiprocessors or DeviceLimits().multiprocessors,
            multiprocessor_shared_bytes=gpu.shared_bytes + _RESERVED_SHARED_BYTES,
            multiprocessor_registers=gpu.registers_per_multiprocessor,
            multiprocessor_threads=gpu.threads_per_multiprocessor,
            multiprocessor_blocks=gpu.threads_per_multiprocessor // _THREADS_PER_BLOCK,
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config with every automatic choice made."""

    config: RunConfig
    device: DeviceClass
    """The device class."""
    note: Notice
    """One line on the choice and its reason."""


def this_machine() -> Machine:
    """Return the devices of this machine. Cheap: Triton is found, not imported."""
    gpus = visible_gpus()
    return Machine(next(iter(gpus), None), importlib.util.find_spec("triton") is not None, gpus[1:])


def gpus_note(machine: Machine, *, used: Sequence[GpuFacts]) -> Notice | None:
    """Return one line on which of several GPUs are used; None where there is nothing to choose."""
    left = [gpu for gpu in machine.others if gpu not in used]
    if not used or not machine.others:
        return None
    names = [f"{gpu.name} (GPU {gpu.index})" for gpu in left]
    alone = f"; left alone: {_listed(names)}" if left else ""
    return Notice(f"candidates are judged on {len(used)} GPU{'s' if len(used) > 1 else ''}{alone}")


def resolve_device(config: RunConfig, task: Task, *, machine: Machine) -> Resolved:
    """Decide the device class of a run and return the config for it.

    A device class or a language in the config is kept. Otherwise the class is cuda where that is possible, and cpu
    elsewhere. Raises `ConfigError` if the config's choice is not possible here, or no class is.

    Args:
        task: with the workloads of all classes.
    """
    if config.device != "auto":
        lacking = _lacking(config.device, config, task, machine)
        if lacking:
            raise ConfigError(
                f"{_title(config, config.device)} on device class {config.device} is what the config asks for, but "
                f"{_listed(lacking)}. Evolve it where nothing of this is missing, or let the machine decide: `device` "
                "and `language` both auto"
            )
        return _resolved(config, config.device, machine)
    on_gpu = _lacking("cuda", config, task, machine)
    if not on_gpu:
        return _resolved(config, "cuda", machine)
    on_cpu = _lacking("cpu", config, task, machine)
    if on_cpu:
        raise ConfigError(
            f"task {task.name!r} can be evolved neither on a GPU ({_listed(on_gpu)}) nor on the processor "
            f"({_listed(on_cpu)})"
        )
    return _resolved(config, "cpu", machine, because=on_gpu[0])


def likely_class(config: RunConfig, machine: Machine) -> DeviceClass:
    """Return the device class that a run most likely has, before its task is loaded, which takes seconds."""
    if config.device != "auto":
        return config.device
    return "cuda" if machine.gpu is not None and machine.triton else "cpu"


def _resolved(config: RunConfig, device: DeviceClass, machine: Machine, *, because: str = "") -> Resolved:
    """Return the config for a device class; `because` is why an automatic choice is not the GPU."""
    spared = machine.gpu if because else None
    place = machine.gpu.name if device == "cuda" and machine.gpu is not None else "the processor"
    text = f"evolving {_title(config, device)} on {place}" + (f": {because}" if because else "")
    text = f"{spared.name} is left alone, {text}" if spared is not None else text
    note = Notice(text, spared is not None, RemarkKind.DEVICE_CHANGE)
    return Resolved(config.on(device), device, note)


def _lacking(device: DeviceClass, config: RunConfig, task: Task, machine: Machine) -> list[str]:
    """Return what is missing for a device class, each as a clause."""
    language, lacking = config.on(device).language, []
    if device == "cuda" and machine.gpu is None:
        lacking.append("no NVIDIA GPU is visible here")
    if device == "cuda" and not machine.triton:
        lacking.append("triton is not installed (pip install triton)")
    if device not in task.workloads:
        lacking.append(f"task {task.name!r} has no {device} workloads")
    if language not in task.seeds and not config.seed_sources:
        lacking.append(f"task {task.name!r} has no seed in {language} (name a kernel under seed_sources)")
    return lacking


def _title(config: RunConfig, device: DeviceClass) -> str:
    return _TITLES[config.on(device).language]


def _listed(clauses: Sequence[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"

"""Which class of devices a run is for: what its config asks, its task offers and this machine has, put together."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evokernel.config import DEVICE_OF, LANGUAGE_OF, DeviceClass, RunConfig
from evokernel.errors import ConfigError
from evokernel.evaluate.cuda.driver import GpuFacts, visible_gpu
from evokernel.languages.device_limits import DeviceLimits
from evokernel.protocols import Note
from evokernel.task import Task

SUFFIXES = {".cpp": "cpp", ".py": "triton"}
"""Languages by the suffix of a source file."""
_RESERVED_SHARED_BYTES = 1024  # CUDA keeps this much of the shared memory for each block
_THREADS_PER_BLOCK = 64  # a multiprocessor of 2048 threads holds 32 blocks; those of 1536 threads hold 16 to 24
_TITLES = {"cpp": "C++", "triton": "Triton"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides here: the GPU that would be used, or None, and whether Triton is installed."""

    gpu: GpuFacts | None
    triton: bool

    def limits(self, device: DeviceClass) -> DeviceLimits | None:
        """Return what kernels of a device class are compiled against: the limits of the GPU, None on a processor."""
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
    """A config with nothing left to the machine, its device class, and one line on what was chosen and why."""

    config: RunConfig
    device: DeviceClass
    note: Note


def this_machine() -> Machine:
    """Look at this machine. Cheap: Triton is found, not imported."""
    return Machine(visible_gpu(), importlib.util.find_spec("triton") is not None)


def resolve_device(config: RunConfig, task: Task, *, machine: Machine) -> Resolved:
    """Decide the device class of a run and return the config for it.

    A device class or a language that the config gives is taken, and seed sources with the suffix of one language mean
    that language. Otherwise it is class cuda where it is possible, and class cpu elsewhere.

    Args:
        config: as it was read.
        task: with the workloads of all classes.
        machine: where the run would take place.

    Raises:
        ConfigError: what the config asks for is not possible here, or nothing is.
    """
    asked = _asked(config)
    if asked is not None:
        lacking = _lacking(asked, config, task, machine)
        if lacking:
            raise ConfigError(
                f"{_what(asked)} is what the config asks for, but {_listed(lacking)}. Evolve it where nothing of this "
                "is missing, or let the machine decide: `device` and `language` both auto"
            )
        return _resolved(config, asked, f"evolving {_where(asked, machine)}")
    on_gpu = _lacking("cuda", config, task, machine)
    if not on_gpu:
        return _resolved(config, "cuda", f"evolving {_where('cuda', machine)}")
    on_cpu = _lacking("cpu", config, task, machine)
    if on_cpu:
        raise ConfigError(
            f"task {task.name!r} can be evolved neither on a GPU ({_listed(on_gpu)}) nor on the processor "
            f"({_listed(on_cpu)})"
        )
    text = f"evolving {_where('cpu', machine)}: {_listed(on_gpu)}"
    if machine.gpu is not None:
        return _resolved(config, "cpu", f"{machine.gpu.name} is left alone, {text}", warning=True)
    return _resolved(config, "cpu", text)


def _resolved(config: RunConfig, device: DeviceClass, text: str, *, warning: bool = False) -> Resolved:
    return Resolved(config.on(device), device, Note(text, warning))


def _asked(config: RunConfig) -> DeviceClass | None:
    """Return the device class that the config means, or None where the machine decides."""
    if config.device != "auto":
        return config.device
    languages = {SUFFIXES.get(Path(source).suffix, "") for source in config.seed_sources}
    return DEVICE_OF.get(languages.pop()) if len(languages) == 1 else None


def _lacking(device: DeviceClass, config: RunConfig, task: Task, machine: Machine) -> list[str]:
    """Return what is missing for a device class, each as a clause."""
    language, lacking = LANGUAGE_OF[device], []
    if device == "cuda" and machine.gpu is None:
        lacking.append("no NVIDIA GPU is visible here")
    if device == "cuda" and not machine.triton:
        lacking.append("triton is not installed (pip install triton)")
    if device not in task.workloads:
        lacking.append(f"task {task.name!r} has no {device} workloads")
    if language not in task.seeds and not config.seed_sources:
        lacking.append(f"task {task.name!r} has no seed in {language} (name a kernel under seed_sources)")
    return lacking


def _what(device: DeviceClass) -> str:
    return f"{_TITLES[LANGUAGE_OF[device]]} on device class {device}"


def _where(device: DeviceClass, machine: Machine) -> str:
    place = machine.gpu.name if device == "cuda" and machine.gpu is not None else "the processor"
    return f"{_TITLES[LANGUAGE_OF[device]]} on {place}"


def _listed(clauses: Sequence[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"

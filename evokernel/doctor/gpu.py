"""Checks of the NVIDIA GPU and of its drivers and tools."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from evokernel.doctor.finding import Finding, FindingLevel
from evokernel.evaluate.device.device_class import Machine
from evokernel.evaluate.device.nodes import nvidia_nodes
from evokernel.evaluate.device.nvml import GpuFacts, NvmlError
from evokernel.evaluate.inside.driver.nvrtc import NvrtcMissing, find_nvrtc
from evokernel.evaluate.instruments.tools import PROFILER, SANITIZER, counters_refused, find_tool
from evokernel.evaluate.sandbox.levels import detect_sandbox

_DRIVER = Path("/proc/driver/nvidia")
_OPEN_COUNTERS = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"


def examine_gpu(machine: Machine, *, driver: Path = _DRIVER) -> Iterator[Finding]:
    """Yield the findings on the GPU; one where there is none. `driver` is the folder of the driver."""
    if machine.gpu is None:
        yield _no_gpu(machine, driver)
        return
    gpu = machine.gpu
    major, minor = divmod(gpu.capability, 10)
    memory = f"{gpu.memory_bytes / 2**30:.0f} GiB"
    yield Finding(
        "gpu", FindingLevel.OK, f"{gpu.name}, compute capability {major}.{minor}, {memory}; driver {gpu.driver}"
    )
    yield torch_finding(_torch_cuda())
    yield _triton(installed=machine.triton)
    yield nvrtc_finding()
    yield _toolkit()
    yield _nodes()
    yield _neighbours(gpu)
    yield counters_finding(driver / "params")
    yield profiler_finding(find_tool(PROFILER))
    yield sanitizer_finding(find_tool(SANITIZER))


def _no_gpu(machine: Machine, driver: Path) -> Finding:
    if (driver / "version").exists():
        advice = "look at CUDA_VISIBLE_DEVICES, /dev/nvidia* and nvidia-smi; C++ evolves on the CPU all the same"
        return Finding("gpu", FindingLevel.WARNING, "the NVIDIA driver is loaded, but no GPU is visible", advice)
    can = "Triton can be compiled, not run" if machine.triton else "Triton is not installed"
    return Finding("gpu", FindingLevel.OK, f"none found; C++ evolves on the CPU; {can}")


def _torch_cuda() -> str | None:
    """Return the CUDA version torch was built with, empty for a CPU build, None without torch. Imports no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    found = re.search(r"^cuda\b[^=\n]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else ""


def torch_finding(cuda: str | None) -> Finding:
    """Say whether torch can use the GPU, given the CUDA version it was built with (empty for none)."""
    if cuda:
        return Finding("torch cuda", FindingLevel.OK, f"built with CUDA {cuda}")
    advice = "candidates are compared with torch on the GPU: pip install torch from the index that has CUDA builds"
    return Finding("torch cuda", FindingLevel.WARNING, "a CPU build" if cuda == "" else "no torch", advice)


def _triton(*, installed: bool) -> Finding:
    if not installed:
        return Finding(
            "triton", FindingLevel.WARNING, "not installed", "pip install triton, to evolve Triton on this GPU"
        )
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        version = "of an unknown version"
    spec = importlib.util.find_spec("triton")
    assembler = Path(spec.origin).parent / "backends/nvidia/bin/ptxas" if spec and spec.origin else None
    if assembler is None or not os.access(assembler, os.X_OK):
        return Finding(
            "triton", FindingLevel.WARNING, f"{version}, without its ptxas", "install triton again, from a wheel"
        )
    return Finding("triton", FindingLevel.OK, f"{version}, with its own ptxas")


def nvrtc_finding() -> Finding:
    """Say whether CUDA C++ can be compiled."""
    try:
        found = find_nvrtc()
    except (NvrtcMissing, OSError) as error:
        return Finding("nvrtc", FindingLevel.WARNING, str(error), "only CUDA C++ (--set language=cuda) needs it")
    if found.has_headers:
        return Finding("nvrtc", FindingLevel.OK, f"{found.version}, with CUDA's headers")
    advice = "kernels that include cuda_fp16.h and the like do not compile: pip install nvidia-cuda-runtime"
    return Finding("nvrtc", FindingLevel.WARNING, f"{found.version}, without CUDA's headers", advice)


def _toolkit() -> Finding:
    """Say whether the CUDA toolkit is there; nothing needs it."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return Finding("toolkit", FindingLevel.OK, "no nvcc; none is needed")
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("toolkit", FindingLevel.OK, f"{nvcc} does not run ({error}); none is needed")
    found = re.search(r"release ([\d.]+)", done.stdout)
    return Finding("toolkit", FindingLevel.OK, f"nvcc {found.group(1) if found else 'of an unknown version'} at {nvcc}")


def _nodes() -> Finding:
    """Say whether candidates, which may have a user id of their own, can open the GPU's device nodes."""
    nodes = nvidia_nodes()
    if not nodes:
        return Finding(
            "gpu nodes", FindingLevel.WARNING, "no /dev/nvidia*", "pass the GPU's device nodes to this container"
        )
    found, apart = ", ".join(nodes), detect_sandbox().as_root
    shut = [name for name in nodes if not _opens(name) or (apart and os.stat(name).st_mode & 0o006 != 0o006)]
    if shut:
        whom = "candidates, which get user ids of their own," if apart else "you"
        return Finding(
            "gpu nodes", FindingLevel.WARNING, found, f"{whom} cannot open {', '.join(shut)}: chmod a+rw them"
        )
    return Finding("gpu nodes", FindingLevel.OK, found)


def _opens(name: str) -> bool:
    try:
        os.close(os.open(name, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _neighbours(gpu: GpuFacts) -> Finding:
    """List the other processes that compute on the GPU now."""
    from evokernel.evaluate.device.gpu_conditions import compute_processes  # imports torch, which takes a second

    try:
        others = compute_processes(gpu.index)
    except NvmlError as error:
        return Finding("gpu load", FindingLevel.OK, f"the driver does not list its processes ({error})")
    if not others:
        return Finding("gpu load", FindingLevel.OK, "no other process has a context on it")
    listed = ", ".join(f"{pid} ({used / 2**20:.0f} MiB)" for pid, used in sorted(others.items()))
    advice = "searches wait while others have work on the GPU; end them, or choose another with CUDA_VISIBLE_DEVICES"
    return Finding("gpu load", FindingLevel.WARNING, f"processes with a context on it: {listed}", advice)


def counters_finding(params: Path) -> Finding:
    """Say whether everybody may read the GPU's hardware counters, by the driver's list of parameters."""
    if not params.is_file():
        return Finding("counters", FindingLevel.OK, "the driver does not say who may read hardware counters")
    if not counters_refused(params):
        return Finding("counters", FindingLevel.OK, "hardware counters can be read")
    advice = (
        f"kernels are not profiled, which needs no root but this: {_OPEN_COUNTERS} in /etc/modprobe.d, and a reboot"
    )
    return Finding("counters", FindingLevel.WARNING, "hardware counters are for the administrator only", advice)


def profiler_finding(path: Path | None) -> Finding:
    """Say whether kernels can be profiled, given where the profiler is."""
    if path is not None:
        return Finding("profiler", FindingLevel.OK, f"{PROFILER} at {path}")
    advice = "models are not told what limits a kernel; it comes with the CUDA toolkit, and PATH should lead to it"
    return Finding("profiler", FindingLevel.WARNING, f"no {PROFILER}", advice)


def sanitizer_finding(path: Path | None) -> Finding:
    """Say whether winners can be checked for wrong accesses and races, given where the sanitizer is."""
    if path is not None:
        return Finding("sanitizer", FindingLevel.OK, f"{SANITIZER} at {path}")
    advice = "winners are not checked for races and wrong accesses beyond what outputs show; it is in the CUDA toolkit"
    return Finding("sanitizer", FindingLevel.WARNING, f"no {SANITIZER}", advice)

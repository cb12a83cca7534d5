"""Checks of this machine: a finding with advice for each thing that a search needs."""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from evokernel.doctor.finding import Finding, FindingLevel
from evokernel.doctor.gpu import examine_gpu
from evokernel.errors import EvokernelError, LanguageError
from evokernel.evaluate.device.cores import busy_machine
from evokernel.evaluate.device.cpu_roofline import device_name
from evokernel.evaluate.device.device_class import this_machine
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.languages import make_language
from evokernel.languages.cpp.compilers import find_compiler, find_objdump
from evokernel.languages.toolchain import run_plain

_SYS_ADMIN, _SETFCAP = 1 << 21, 1 << 31  # bits of capabilities(7)
PACKAGES = ("evokernel", "islands", "operators", "archive")
OURS = "evokernel-search"
FOREIGN = "evokernel"
_LEAST_DISK_BYTES = 1 << 30
_LEAST_MEMORY_BYTES = 4 << 30
_LEAST_PYTHON = (3, 11)


def examine(runs: Path) -> Iterator[Finding]:
    """Yield a finding for each thing a search needs or profits from. `runs` is where stores are written."""
    yield _python()
    yield _packages()
    yield from _foreign()
    yield _torch()
    yield from _tools()
    yield _sandbox()
    yield _cores()
    yield _governor()
    yield _disk(runs)
    yield _memory()
    yield from examine_gpu(this_machine())


def _python() -> Finding:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < _LEAST_PYTHON:
        return Finding("python", FindingLevel.MISSING, found, "use Python 3.11 or newer")
    return Finding("python", FindingLevel.OK, found)


def _packages() -> Finding:
    """Say whether the four packages come from one place; otherwise something shadows one of them."""
    places = {name: _origin(name) for name in PACKAGES}
    missing = [name for name, place in places.items() if place is None]
    found = ", ".join(f"{name}: {place or 'not found'}" for name, place in places.items())
    if missing:
        return Finding(
            "packages", FindingLevel.MISSING, found, f"{', '.join(missing)} cannot be imported; install evokernel again"
        )
    if len({place.parent for place in places.values() if place}) > 1:
        advice = (
            "they come from different places, so another project's package has one of these names; use a fresh venv"
        )
        return Finding("packages", FindingLevel.MISSING, found, advice)
    return Finding("packages", FindingLevel.OK, found)


def _origin(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _foreign() -> Iterator[Finding]:
    """Warn of the other project that has our name on the package index."""
    try:
        version = importlib.metadata.version(FOREIGN)
    except importlib.metadata.PackageNotFoundError:
        return
    advice = f"it is another project and may replace our files: pip uninstall {FOREIGN}, then install {OURS} again"
    yield Finding("distribution", FindingLevel.WARNING, f"{FOREIGN} {version} is installed", advice)


def _torch() -> Finding:
    try:
        return Finding("torch", FindingLevel.OK, importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", FindingLevel.MISSING, "not installed", "pip install torch (the CPU build is enough)")


def _tools() -> Iterator[Finding]:
    try:
        yield Finding("compiler", FindingLevel.OK, find_compiler().label)
    except LanguageError as error:
        yield Finding("compiler", FindingLevel.MISSING, "none", str(error))
        return
    try:
        yield Finding("objdump", FindingLevel.OK, find_objdump())
        sanitizers = bool(getattr(make_language("cpp", run=run_plain), "sanitizers", False))
    except LanguageError as error:
        yield Finding("objdump", FindingLevel.MISSING, "none", str(error))
        return
    if sanitizers:
        yield Finding("sanitizers", FindingLevel.OK, "address and undefined behaviour")
    else:
        advice = "candidates are not run under sanitizers; install the compiler's libasan and libubsan"
        yield Finding("sanitizers", FindingLevel.WARNING, "cannot be linked", advice)


def _sandbox() -> Finding:
    try:
        sandbox = detect_sandbox()
    except EvokernelError as error:
        return Finding("sandbox", FindingLevel.MISSING, "none works", str(error))
    open_ways = "; ".join(sandbox.holes())
    if sandbox.level is SandboxLevel.FULL:
        return Finding("sandbox", FindingLevel.OK, sandbox.describe(), f"left open: {open_ways}")
    lifts = "; ".join(sandbox_obstacles()) or "apt install bubblewrap, and allow user namespaces"
    advice = f"left open: {open_ways}. For the full level (docs/containers.md): {lifts}"
    return Finding("sandbox", FindingLevel.WARNING, sandbox.describe(), advice)


def _cores() -> Finding:
    cores = sorted(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    found = f"{len(cores)} of {device_name()}; kernels are timed on core {cores[-1]}; load {load:.1f}"
    if len(cores) < 2:
        return Finding(
            "cores", FindingLevel.WARNING, found, "compiling and timing share one core; two or more are better"
        )
    if busy := busy_machine(load, len(cores)):
        return Finding("cores", FindingLevel.WARNING, found, busy)
    return Finding("cores", FindingLevel.OK, found)


def _governor() -> Finding:
    core = max(os.sched_getaffinity(0))
    try:
        found = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor").read_text(encoding="ascii").strip()
    except OSError:
        return Finding("frequency", FindingLevel.OK, "governor not readable (a virtual machine, mostly)")
    if found == "performance":
        return Finding("frequency", FindingLevel.OK, f"governor {found}")
    advice = f"echo performance | sudo tee /sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
    return Finding(
        "frequency", FindingLevel.WARNING, f"governor {found}", f"times scatter more than they need to: {advice}"
    )


def _disk(runs: Path) -> Finding:
    place = runs.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{free / 2**30:.1f} GiB free for {runs}"
    if not os.access(place, os.W_OK):
        return Finding("disk", FindingLevel.MISSING, f"{place} cannot be written", "work in a folder of your own")
    if free < _LEAST_DISK_BYTES:
        return Finding("disk", FindingLevel.WARNING, found, "a long run takes some hundred MiB; free some space")
    return Finding("disk", FindingLevel.OK, found)


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = f"{total / 2**30:.1f} GiB"
    if total < _LEAST_MEMORY_BYTES:
        return Finding("memory", FindingLevel.WARNING, found, "lower evaluation.memory_mib (4096) in your configs")
    return Finding("memory", FindingLevel.OK, found)


def sandbox_obstacles(proc: Path = Path("/proc"), *, root: bool | None = None) -> Iterator[str]:
    """Yield a sentence for each thing that keeps bubblewrap from making its namespaces.

    Args:
        proc: the folder of the kernel's files.
        root: the user id is 0; by default that of this process.
    """
    held = _capabilities(proc / "self" / "status")
    if _text(proc / "sys" / "user" / "max_user_namespaces").strip() == "0":
        yield "user namespaces are off: sysctl user.max_user_namespaces=15000 on the host"
    if (os.geteuid() == 0 if root is None else root) and not held & _SETFCAP:
        yield "root without capabilities may not make them: run as an ordinary user (a pod: runAsUser: 1000)"
    mounts = (line.split() for line in _text(proc / "self" / "mountinfo").splitlines())
    if not held & _SYS_ADMIN and any(fields[4].startswith("/proc/") for fields in mounts if len(fields) > 4):
        yield (
            "parts of /proc are covered, so no new /proc can be mounted: a pod with procMount: Unmasked and "
            "hostUsers: false, Docker with --security-opt systempaths=unconfined"
        )


def _capabilities(status: Path) -> int:
    lines = [line for line in _text(status).splitlines() if line.startswith("CapEff:")]
    return int(lines[0].split()[1], 16) if lines else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

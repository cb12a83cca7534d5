"""Fingerprint of a host: everything installed there that verdicts depend on."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from evokernel import __version__
from evokernel.evaluate.device.cpu_roofline import device_name
from evokernel.evaluate.device.device_class import Machine

Fingerprint = Mapping[str, str]
"""Versions and models by what they are of."""
_PACKAGE = Path(__file__).parents[2]
ON_EVERY_MACHINE = ("evokernel", "python", "torch", "triton", "ray")
"""The parts that the machine of the engine shares with its hosts; it may be without a GPU."""


def fingerprint(machine: Machine) -> Fingerprint:
    """Return the fingerprint of this machine."""
    gpu = machine.gpu
    return {
        "evokernel": f"{__version__} {source_hash()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "triton", "ray")},
        "driver": gpu.driver if gpu else "none",
        "device": gpu.name if gpu else device_name(),
    }


def differences(expected: Fingerprint, found: Fingerprint) -> str:
    """Return how a fingerprint differs from what is expected, in words; empty where it does not."""
    wrong = [name for name, value in expected.items() if found.get(name) != value]
    return ", ".join(f"{name} is {found.get(name)} and not {expected[name]}" for name in wrong)


@cache
def source_hash(package: Path = _PACKAGE) -> str:
    """Return 12 hex digits over the names and contents of a package's files, compiled modules left out."""
    digest = hashlib.sha256()
    for path in sorted(each for each in package.rglob("*") if each.is_file() and each.suffix != ".pyc"):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"

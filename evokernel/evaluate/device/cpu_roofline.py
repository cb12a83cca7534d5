"""Roofline of this processor: peak rates measured at start, and the least time of a piece of work."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.records.timing import Floor, Limit

IMPOSSIBLE_SHARE = 0.9
"""A candidate below this share of the floor is impossible; the rest allows for errors of the device sheet."""
_LEVELS = ("l1", "l2", "l3")
_PROBE = Path(__file__).with_name("cpu_probe.cpp")
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-pthread")


def device_name() -> str:
    """Return the processor's model; one too vague to name a model gets a hash of its feature flags."""
    fields = _first_processor()
    name = " ".join(fields.get("model name", fields.get("CPU implementer", "cpu")).split())
    if re.search(r"\d{3}", name):
        return name
    return f"{name} [{hashlib.sha256(_traits(fields).encode()).hexdigest()[:8]}]"


def _first_processor() -> dict[str, str]:
    """Return what the system says of a processor. Raises `HarnessError`."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HarnessError(f"cannot read the processor's name: {error}") from None
    return dict(re.findall(r"^([\w ]+)\t*: (.*)", text.split("\n\n")[0], re.MULTILINE))


def _traits(fields: Mapping[str, str]) -> str:
    return " ".join(fields.get(key, "") for key in ("vendor_id", "cpu family", "model", "flags", "Features"))


def measure_device(cores: Sequence[int], folder: Path) -> dict[str, float]:
    """Return peak rates and bandwidths of the given cores used at once, and the sizes of their caches.

    `peak_fp32_gflop_s`; `vector_bits` and `vector_registers` of the widest vectors that compilers use;
    `{l1,l2,l3,dram}_{read,copy}_gb_s`; `{l1,l2,l3}_bytes` (0 where there is no such cache).
    Takes half a second, and another one where `folder` holds no probe of this processor and compiler yet.

    Raises:
        HarnessError: no C++ compiler is found, or the probe fails.
    """
    text = _run([str(_built_probe(folder)), *map(str, cores)], "run the device probe")
    return {name: float(value) for name, value in (line.split() for line in text.splitlines())}


def cache_folder() -> Path:
    """Return the folder of compiled probes and trampolines: small, few, and the same for every run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "evokernel"


def _built_probe(folder: Path) -> Path:
    """Return the probe, compiled at the first use by this compiler on this processor. Raises `HarnessError`."""
    compiler = _compiler()
    made_by = _run([compiler, "--version"], "ask the compiler for its version")
    told = "\0".join((_PROBE.read_text(encoding="utf-8"), *_FLAGS, compiler, made_by, _traits(_first_processor())))
    program = folder / f"probe-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            built = Path(scratch, "probe")
            _run([compiler, *_FLAGS, "-o", str(built), str(_PROBE)], "compile the device probe")
            os.replace(built, program)  # a concurrent reader finds all of it or nothing
    return program


def best_of(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Return the better of two sheets, entry by entry: a busy machine can only look slower than it is.

    Higher is better, except for times (`_us`).
    """
    merged = {**first, **second}
    for name in first.keys() & second.keys():
        merged[name] = (min if name.endswith("_us") else max)(first[name], second[name])
    return merged


def floor_of(flops: float, bytes_moved: float, sheet: Mapping[str, float]) -> Floor:
    """Return the least time: the longer of peak arithmetic and of the fastest memory that holds the bytes."""
    compute = flops / (sheet["peak_fp32_gflop_s"] * 1e3)
    level = next((name for name in _LEVELS if bytes_moved <= sheet.get(f"{name}_bytes", 0.0)), "dram")
    bandwidth = max(sheet[f"{level}_read_gb_s"], sheet[f"{level}_copy_gb_s"])
    return longer(compute, bytes_moved / (bandwidth * 1e3))


def longer(arithmetic_us: float, memory_us: float, *, launch_us: float = 0.0) -> Floor:
    """Return the longer of two times as a floor. The cost of a launch does not count, but may be the limit."""
    us = max(arithmetic_us, memory_us)
    if us < launch_us:
        return Floor(us, Limit.LAUNCH)
    return Floor(us, Limit.ARITHMETIC if arithmetic_us > memory_us else Limit.MEMORY)


def is_impossible(candidate_us: float, least_us: float | None) -> bool:
    """Say whether a time lies below the floor by more than the stated margin."""
    return least_us is not None and candidate_us < IMPOSSIBLE_SHARE * least_us


def _compiler() -> str:
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return path
    raise HarnessError("measuring the device needs a C++ compiler (c++, g++ or clang++) on PATH")


def _run(command: Sequence[str], what: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"could not {what}: {error}") from None
    if done.returncode:
        raise HarnessError(f"could not {what}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout

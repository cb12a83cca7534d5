"""Lookup of NVIDIA's tools, and of the driver's permission to read hardware counters."""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

PROFILER, SANITIZER = "ncu", "compute-sanitizer"
PARAMETERS = Path("/proc/driver/nvidia/params")
_TOOLKITS, _PROFILERS = Path("/usr/local"), Path("/opt/nvidia/nsight-compute")


def find_tool(name: str) -> Path | None:
    """Return a program of the CUDA toolkit: from PATH, or from the newest installed toolkit."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    return next((path for path in _usual_places(name) if os.access(path, os.X_OK)), None)


def counters_refused(parameters: Path = PARAMETERS) -> bool:
    """Say whether the driver keeps hardware counters for the administrator, by its list of parameters.

    A profiler is started without an administrator's rights, so this holds for root, too.
    """
    try:
        text = parameters.read_text(encoding="utf-8")
    except OSError:
        return False
    restricted = re.search(r"^RmProfilingAdminOnly: *(\d+)", text, re.MULTILINE)
    return restricted is not None and restricted[1] != "0"


def _usual_places(name: str) -> Iterable[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", name)
    for toolkit in _newest_first(_TOOLKITS.glob("cuda*")):
        yield from (toolkit / "bin" / name, toolkit / name / name)
    if name == PROFILER:
        yield from (folder / name for folder in _newest_first(_PROFILERS.glob("*")))


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    """Return folders by the numbers in their names; one without a number, a link to the chosen one, comes first."""

    def rank(folder: Path) -> tuple[bool, list[int]]:
        numbers = [int(number) for number in re.findall(r"\d+", folder.name)]
        return not numbers, numbers

    return sorted(folders, key=rank, reverse=True)

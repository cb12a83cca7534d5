"""Rates from a peer's log of judged programs: one time in seconds on each line."""

import os
import time
from pathlib import Path


def summary(log: Path, *, memory_mb: float) -> dict[str, float]:
    """Return how many were judged, and how many a second over the first 500 and the last 100."""
    times = sorted(float(line) for line in log.read_text().splitlines())
    found = {"judged": len(times), "memory_mb": round(memory_mb)}
    for name, part in (("first_per_s", times[:500]), ("last_per_s", times[-100:])):
        if len(part) > 1:
            found[name] = round((len(part) - 1) / (part[-1] - part[0]), 2)
    return found


def resident_mb(process: int | str) -> float:
    """Return the memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def until_there(path: Path) -> str:
    """Return the content of a file as soon as it has any."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.05)
    raise SystemExit(f"{path} did not come")

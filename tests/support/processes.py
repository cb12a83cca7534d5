"""What processes there are, as the kernel says."""

import ctypes
import os
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def take_orphans(take: bool) -> None:
    """Become the parent of all descendants that lose theirs, so that none can hide, or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(take), 0, 0, 0)


def descendants(ancestor: int | None = None) -> set[int]:
    """Return the processes that one, by default this one, started, directly or not; zombies do not count."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(name)] = int(fields[1])
    root = os.getpid() if ancestor is None else ancestor
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}

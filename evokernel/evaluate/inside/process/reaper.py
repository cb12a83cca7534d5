"""Finds and kills processes that a candidate left behind, where no PID namespace does so."""

import os

from .seal import SIGKILL


def end_orphans(known: set[int]) -> int:
    """Kill and reap every child that is not in `known`, and their orphans; return their number.

    The caller is a child subreaper, so every orphan becomes its child, even a daemon in a session of its own.
    """
    ended = 0
    while orphans := children() - known:
        for pid in orphans:
            try:  # noqa: SIM105  contextlib takes longer to import than this takes
                os.kill(pid, SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            try:  # noqa: SIM105
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        ended += len(orphans)
    return ended


def children() -> set[int]:
    """Return the direct children of this process."""
    path = f"/proc/self/task/{os.getpid()}/children"
    if os.path.exists(path):
        with open(path) as file:
            return {int(pid) for pid in file.read().split()}
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == os.getpid()}


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0  # gone meanwhile

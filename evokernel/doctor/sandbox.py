"""Obstacles to the full sandbox, in containers above all: each with the setting that lifts it."""

import os
from collections.abc import Iterator
from pathlib import Path

_SYS_ADMIN, _SETFCAP = 1 << 21, 1 << 31  # bits of capabilities(7)


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

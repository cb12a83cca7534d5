"""Tries the sandbox's mechanisms in a throw-away process; exits with 0 only if all of them work here."""

import ctypes
import os
from typing import Any

from .seal import CLONE_NEWPID, LIBC, check, seal, show_only_own_processes


def main(spec: dict[str, Any]) -> None:
    """Take a PID namespace if asked, seal a child and check the result."""
    if spec["own_pid_namespace"]:
        check(LIBC.unshare(CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid == 0:
        os._exit(_sealed(spec))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)


def _sealed(spec: dict[str, Any]) -> int:
    uid = spec["uid"]
    if spec["own_pid_namespace"]:
        show_only_own_processes()
    seal(spec, uid)
    if spec["own_pid_namespace"] and os.getpid() != 1:
        return 2
    if uid is not None and (os.getuid() != uid or os.geteuid() != uid):
        return 3
    # ptrace(PTRACE_TRACEME) fails only under our filter.
    if spec["seccomp"] and not (LIBC.ptrace(0, 0, 0, 0) < 0 and ctypes.get_errno() == 1):
        return 4
    return 0

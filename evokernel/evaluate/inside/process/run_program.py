"""Runs one program with all rights given up, and ends every process that it leaves behind."""

from __future__ import annotations

import os
import select
import sys

from .reaper import end_orphans
from .seal import (
    CLONE_NEWPID,
    LIBC,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    SIGKILL,
    check,
    prctl,
    seal,
    show_only_own_processes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

STARTED = b"started"
CANNOT_RUN = 127
LOOK_EVERY_MS = 10


def main(spec: dict[str, Any]) -> None:
    """Run the program that `spec` describes; say `STARTED` on the control socket, then its wait status as two numbers.

    The second is 1 where it used too much memory.
    """
    control = spec["control"]
    if spec["own_pid_namespace"]:
        _become_first_process(control)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)  # the program may have our user id; it must not get at our memory
    os.write(control, STARTED)
    pid = os.fork()
    if pid == 0:
        _become(spec, control)
    # The program holds the only other ends of the output pipes.
    for stream in (1, 2):
        os.close(stream)
    child = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(child, select.POLLIN)
    finished, too_large = _wait(poller, child, pid, spec["resident_bytes"])
    if not finished:  # the judge closed the channel: at the time limit, or by its own end
        os.kill(pid, SIGKILL)
    _, status = os.waitpid(pid, 0)
    end_orphans(set())
    if finished:
        os.write(control, b"%d %d" % (status, too_large))
    os._exit(0)


def _wait(poller: select.poll, child: int, pid: int, resident_bytes: int | None) -> tuple[bool, bool]:
    """Wait until the program ends or the judge hangs up; kill it where it uses too much memory.

    Returns whether it ended, and whether it used too much.
    """
    patience, too_large = None if resident_bytes is None else LOOK_EVERY_MS, False
    while not (ready := poller.poll(patience)):
        if resident_bytes is not None and _resident(pid) > resident_bytes:
            os.kill(pid, SIGKILL)
            patience, too_large = None, True
    return all(fd == child for fd, _ in ready), too_large


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0  # it has just ended


def _become_first_process(control: int) -> None:
    """Become the first process of a new PID namespace: safe from the program's signals, and its end ends the others."""
    check(LIBC.unshare(CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid:
        os.close(control)
        for stream in (1, 2):
            os.close(stream)
        os.waitpid(pid, 0)
        os._exit(0)
    show_only_own_processes()


def _become(spec: dict[str, Any], control: int) -> NoReturn:
    try:
        os.close(control)
        os.setsid()
        os.chdir(spec["folder"])
        seal(spec, spec["uid"])
        os.execve(spec["program"], spec["argv"], spec["env"])
    except OSError as error:
        sys.stderr.write(f"cannot run {spec['argv'][0]}: {error}\n")
        sys.stderr.flush()
    os._exit(CANNOT_RUN)

"""A session of a search as a child process: the command that a person would type."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from archive.file.lock import EngineLock
from evokernel.errors import StoreLocked
from evokernel.evaluate.inside.process.seal import PR_SET_PDEATHSIG, prctl

MARK = "EVOKERNEL_SLICE"
"""The environment variable that says which slice a process belongs to."""
SAID_BYTES = 2000
"""The most of a session's last output that is read."""
_COUNT_GPUS = "from evokernel.evaluate.device.nvml import visible_gpus; print(len(visible_gpus()))"
_COUNT_S = 60.0


class ChildSession:
    """A session in a child process, with a process group of its own.

    It gets SIGTERM when this process dies, and then ends as any search that is told to stop.
    """

    def __init__(self, command: Sequence[str], *, log: Path, mark: str) -> None:
        """Start the command. Raises `OSError`."""
        self._log = log
        with _output(log) as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                env={**os.environ, MARK: mark},
            )
        self.process = identity_of(self._child.pid)
        """Identity of its process."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._child.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; SIGKILL goes to all its processes."""
        if self._child.poll() is None:
            _send(self._child.pid, number)

    def said(self) -> str:
        """Return the end of its output."""
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - SAID_BYTES))
            return file.read().decode("utf-8", "replace")
        return ""


def _output(log: Path) -> IO[bytes]:
    """Open the log of a session anew; on a full disk its output goes nowhere."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("wb")
    except OSError:
        return open(os.devnull, "wb")


def _end_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def identity_of(pid: int) -> str:
    """Return a name of a process that no other one had or will have; empty where there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state == "Z" else f"{boot}:{pid}:{fields[18]}"


def is_running(process: str) -> bool:
    """Say whether the process of an identity still runs."""
    return identity_of(_number(process)) == process


class ChildSessions:
    """Sessions as child processes of this one."""

    def start(self, command: Sequence[str], *, log: Path, mark: str) -> ChildSession:
        """Start a command with a file for its output, and a mark to know its process by. Raises `OSError`."""
        return ChildSession(command, log=log, mark=mark)

    def left(self, process: str, *, store: Path, mark: str) -> str:
        """Return the identity of a session that an earlier queue has started and that still runs; empty for none.

        Where its number was not noted, the process that writes the store is looked at. Raises `StoreError` if that
        cannot be found out.

        Args:
            process: its identity, where it was noted, or an empty text.
            store: the store that it writes.
            mark: of its start.
        """
        if process and is_running(process):
            return process
        holder = _lock_holder(store)
        with suppress(OSError, ValueError):
            variables = Path(f"/proc/{int(holder)}/environ").read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() in variables:
                return identity_of(int(holder))
        return ""

    def send(self, process: str, number: signal.Signals) -> None:
        """Send a signal to such a session; SIGKILL goes to all its processes."""
        if is_running(process):
            _send(_number(process), number)


def _number(process: str) -> int:
    return int(process.split(":")[1])


def _lock_holder(store: Path) -> str:
    """Return the number of the process that writes a store, as its lock names it; empty where none does."""
    if not store.exists():
        return ""
    try:
        EngineLock(store).release()
    except StoreLocked:
        with suppress(OSError):
            return store.with_name(store.name + ".lock").read_text(encoding="ascii", errors="replace").strip()
    return ""


def count_gpus() -> int:
    """Return how many GPUs a session would find now; in a process of its own, since NVML keeps its first answers."""
    command = [sys.executable, "-c", _COUNT_GPUS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COUNT_S, check=False)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0

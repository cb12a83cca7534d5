"""Fork server: the trusted end of a zygote, a warm sandboxed process that forks single-use ones on request."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.errors import HarnessError
from evokernel.evaluate.sandbox.levels import Sandbox, SandboxLevel
from evokernel.evaluate.sandbox.timed_process import KILL_TIMEOUT_S, MESSAGE_BYTES

FORK_TIMEOUT_S = 15.0
STDERR_SHOWN = 2000
SEALED = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class ForkServerSpec:
    """A zygote's program, and the files and variables that it sees."""

    program: str
    """A module in `inside`."""
    restrictions: Mapping[str, Any]
    """The result of `Sandbox.restrictions`."""
    prepare: str | None = None
    """Function of the program that is called once; all forks share its result."""
    packages: Sequence[str] = ()
    """Folders that Python finds modules in."""
    preload: Sequence[str] = ()
    """Modules imported before the first fork."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Read-only copies, which the program opens as `spec["files"][name]`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the program's `spec`."""
    read: Sequence[str] = ()
    """Readable paths beside the system's folders."""
    devices: Sequence[str] = ()
    """Device nodes beside the system's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """All of its variables."""
    start_timeout_s: float = 60.0
    """Limit of its start, with imports."""


@dataclass(frozen=True, slots=True)
class ForkExit:
    """The end of a forked process."""

    status: int
    """Its wait status."""
    orphans: int
    """Number of processes that it left behind."""

    @property
    def code(self) -> int:
        """The exit code; after a signal, the signal's negative number."""
        return os.waitstatus_to_exitcode(self.status)


class Fork(NamedTuple):
    """A process that a zygote forked."""

    number: int
    """Its number in this fork server."""
    handle: int
    """Process descriptor, which the caller must close."""


@dataclass(frozen=True, slots=True)
class _Zygote:
    process: subprocess.Popen[bytes]
    """The zygote, or bubblewrap around it."""
    control: socket.socket
    """Our end of its socket."""
    stderr: int
    """Descriptor of the file with its stderr."""


class ForkServer:
    """Owns the zygote: starts it when first needed, replaces a dead one, ends it and all its forks.

    Any thread may call it. Nothing outlives the process that made it, however that ends: the zygote watches that
    process, and a fork dies with the zygote. The zygote runs on the cores of the thread that started it.
    """

    def __init__(self, sandbox: Sandbox, plan: ForkServerSpec) -> None:
        self.sandbox = sandbox
        self.plan = plan
        self._lock = threading.RLock()
        self._numbers = 0
        self._zygote: _Zygote | None = None
        self._running: set[int] = set()
        self._endings: dict[int, ForkExit] = {}

    @property
    def pid(self) -> int | None:
        """The zygote's process, or bubblewrap around it; None where there is none."""
        return self._zygote.process.pid if self._zygote else None

    def start(self) -> None:
        """Start the zygote unless it runs already.

        Raises `HarnessError` if it cannot be started, or an import fails; with its own words.
        """
        with self._lock:
            self._started()

    def fork(self, descriptors: Sequence[int]) -> Fork:
        """Start a process that takes over these descriptors (at most 16, copied) and has a user id of its own.

        Raises `HarnessError` if no process can be started.
        """
        with self._lock:
            self._numbers += 1
            handle = self._request(self._numbers, descriptors)
            self._running.add(self._numbers)
            return Fork(self._numbers, handle)

    def ending(self, number: int, timeout_s: float) -> ForkExit | None:
        """Return a process's exit, or None where it is not known in time or the zygote is gone.

        With an exit, no process that it had started is left.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while number in self._running and number not in self._endings:
                try:
                    self._receive(deadline)
                except TimeoutError:
                    break
                except _ZygoteGone:
                    self._stop()
            return self._endings.get(number)

    def forget(self, number: int) -> ForkExit | None:
        """Wait for the exit of a killed process, return it and drop it."""
        ending = self.ending(number, KILL_TIMEOUT_S)
        with self._lock:
            self._running.discard(number)
            return self._endings.pop(number, ending)

    def close(self) -> None:
        """End the zygote and all its forks. Allowed twice; a later fork starts another zygote."""
        with self._lock:
            self._stop()

    def _request(self, number: int, descriptors: Sequence[int]) -> int:
        """Ask the zygote for a process, a new zygote if this one has died; return the process handle."""
        request = json.dumps({"number": number, "uid": self.sandbox.pick_uid()}).encode()
        for _ in range(2):
            zygote = self._started()
            try:
                socket.send_fds(zygote.control, [request], list(descriptors))
                return self._await_start(number)
            except (BrokenPipeError, ConnectionResetError, TimeoutError, _ZygoteGone):
                self._stop()
        raise HarnessError(f"the {self.plan.program} zygote died twice while starting a process")

    def _await_start(self, number: int) -> int:
        deadline = time.monotonic() + FORK_TIMEOUT_S
        while True:
            report, handles = self._receive(deadline)
            if report.get("started") == number:
                break
        if "fault" in report:
            raise HarnessError(f"the {self.plan.program} zygote cannot start a process: {report['fault']}")
        return handles[0]

    def _receive(self, deadline: float) -> tuple[dict[str, Any], list[int]]:
        """Return one message of the zygote, and record the exit that it reports, if any."""
        if self._zygote is None:
            raise _ZygoteGone("the zygote is gone")
        control = self._zygote.control
        control.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            message, handles, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 1)
        except ConnectionResetError:
            message, handles = b"", []
        if not message:
            raise _ZygoteGone("the zygote is gone")
        report: dict[str, Any] = json.loads(message)
        if "ended" in report:
            ending = ForkExit(report["status"], report["orphans"])
            self._endings[report["ended"]] = ending
        return report, handles

    def _started(self) -> _Zygote:
        """Return the zygote, a new one where none runs. Raises `HarnessError`."""
        if self._zygote is None:
            self._zygote = self._launch()
            self._await_zygote()
        return self._zygote

    def _launch(self) -> _Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        judge = os.pidfd_open(os.getpid())
        files = {name: sealed_file(data) for name, data in self.plan.files.items()}
        inherited = (theirs.fileno(), judge, *files.values())
        stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
        try:
            process = subprocess.Popen(
                self._command({"control": theirs.fileno(), "judge": judge, "files": files}),
                env=dict(self.plan.environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=inherited,
                start_new_session=True,
            )
        finally:
            theirs.close()
            for descriptor in inherited[1:]:
                os.close(descriptor)
        return _Zygote(process, ours, stderr)

    def _await_zygote(self) -> None:
        """Wait until the launched zygote has prepared. Raises `HarnessError`, and leaves none then."""
        try:
            report, _ = self._receive(time.monotonic() + self.plan.start_timeout_s)
            reason = report.get("fault")
        except (_ZygoteGone, TimeoutError) as error:
            reason = self.stderr() or f"no answer ({type(error).__name__.strip('_')})"
        if reason is not None:
            self._stop()
            raise HarnessError(f"the {self.plan.program} zygote did not start ({self.sandbox.describe()}): {reason}")

    def stderr(self) -> str:
        """Return the end of the running zygote's stderr."""
        return tail_of(self._zygote.stderr) if self._zygote else ""

    def _command(self, inherited: Mapping[str, Any]) -> list[str]:
        plan = self.plan
        spec = {
            **plan.restrictions,
            **plan.options,
            **inherited,
            "program": plan.program,
            "prepare": plan.prepare,
            "packages": list(plan.packages),
            "preload": list(plan.preload),
            "own_pid_namespace": self.sandbox.level is SandboxLevel.FULL,
        }
        # It outlives the thread that started it, and watches the judge's process by itself.
        return self.sandbox.command("process.zygote", spec, read=plan.read, devices=plan.devices, die_with_thread=False)

    def _stop(self) -> None:
        """Close the control socket, which ends the zygote and its forks; kill a zygote that does not react."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.control.close()
            try:
                zygote.process.wait(KILL_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(zygote.process.pid, signal.SIGKILL)
                zygote.process.wait()
            os.close(zygote.stderr)
        self._running.clear()


class _ZygoteGone(HarnessError):
    """The zygote's socket is closed."""


def sealed_file(data: bytes) -> int:
    """Return the descriptor of a memory file with this content, sealed against changes."""
    descriptor = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
        file.seek(0)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALED)
    return descriptor


def signal_name(number: int) -> str:
    """Return a signal's name, or its number where it has none, like most real-time signals."""
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def tail_of(descriptor: int) -> str:
    """Return the end of a file as untrusted text."""
    start = max(0, os.fstat(descriptor).st_size - STDERR_SHOWN)
    return os.pread(descriptor, STDERR_SHOWN, start).decode(errors="replace").strip()


def package_folders(names: Collection[str]) -> tuple[str, ...]:
    """Return the folders on the search path that hold one of the named packages, or any installed one, in order.

    Other folders, such as a project's checkout or a home, are left out: they may hold private files.
    """
    entries = dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path if entry)
    return tuple(entry for entry in entries if _holds_packages(Path(entry), names))


def _holds_packages(folder: Path, names: Collection[str]) -> bool:
    if not folder.is_dir():  # a zip file, or nothing
        return False
    if any((folder / name / "__init__.py").is_file() for name in names):
        return True
    return next(folder.glob("*.dist-info/RECORD"), None) is not None

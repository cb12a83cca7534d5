"""The trusted end of a zygote: a warm process in the sandbox that forks a sealed, single-use process on request."""

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
    """What a zygote runs, and what it sees.

    `program` is a module in `inside`; its function named `prepare` (if any) is called once and what that returns is
    shared by all forks. `packages` are folders that Python finds modules in; `preload` are modules imported before
    the first fork. `files` are read-only copies that the program opens by descriptor: `spec["files"][name]`.
    `restrictions` is what `Sandbox.restrictions` returned; `options` are further entries of the program's `spec`.
    `read` and `devices` are what the zygote sees beside the system's folders; `environment` is all of its variables.
    """

    program: str
    restrictions: Mapping[str, Any]
    prepare: str | None = None
    packages: Sequence[str] = ()
    preload: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    read: Sequence[str] = ()
    devices: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 15.0


@dataclass(frozen=True, slots=True)
class ForkExit:
    """How a forked process ended: its wait status, and how many processes it had left behind."""

    status: int
    strangers: int

    @property
    def code(self) -> int:
        """The exit code; where a signal ended it, the signal's number, negative."""
        return os.waitstatus_to_exitcode(self.status)


class Fork(NamedTuple):
    """A process that a zygote forked: its number with this host, and a process handle that the caller must close."""

    number: int
    handle: int


@dataclass(frozen=True, slots=True)
class _Zygote:
    """A zygote that runs, or bubblewrap around it: its process, our end of its socket, what it writes to stderr."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    stderr: int


class ForkServer:
    """Owns the zygote: starts it when it is first needed, replaces it when it died, ends it and all its forks.

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
        """The process that was started, None where there is none: the zygote, or bubblewrap around it."""
        return self._zygote.process.pid if self._zygote else None

    def start(self) -> None:
        """Start the zygote unless it runs already.

        Raises:
            HarnessError: it cannot be started, or cannot import what it should; with its own words.
        """
        with self._lock:
            self._started()

    def fork(self, descriptors: Sequence[int]) -> Fork:
        """Start a process that takes over these descriptors (at most 16, copied) and has a user id of its own.

        Raises:
            HarnessError: no process can be started.
        """
        with self._lock:
            self._numbers += 1
            handle = self._request(self._numbers, descriptors)
            self._running.add(self._numbers)
            return Fork(self._numbers, handle)

    def ending(self, number: int, timeout_s: float) -> ForkExit | None:
        """Return how a process ended, or None if that is not known in time, or never will since the zygote is gone.

        Once it is known, no process that it had started is left.
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
        """Wait for the ending of a process that was killed, return it and drop it."""
        ending = self.ending(number, KILL_TIMEOUT_S)
        with self._lock:
            self._running.discard(number)
            return self._endings.pop(number, ending)

    def close(self) -> None:
        """End the zygote and all its forks. Allowed twice; a fork after it starts another zygote."""
        with self._lock:
            self._stop()

    def _request(self, number: int, descriptors: Sequence[int]) -> int:
        """Ask the zygote for a process, a new zygote if this one has died; returns the process handle."""
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
        """Take in one message of the zygote; remembers it where it tells of an ending."""
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
            ending = ForkExit(report["status"], report["strangers"])
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
        """Wait until the zygote that was launched has prepared. Raises `HarnessError`, and leaves none then."""
        try:
            report, _ = self._receive(time.monotonic() + self.plan.start_timeout_s)
            reason = report.get("fault")
        except (_ZygoteGone, TimeoutError) as error:
            reason = self.stderr() or f"no answer ({type(error).__name__.strip('_')})"
        if reason is not None:
            self._stop()
            raise HarnessError(f"the {self.plan.program} zygote did not start ({self.sandbox.describe()}): {reason}")

    def stderr(self) -> str:
        """Return the end of what the running zygote wrote to stderr."""
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
        """Hang up, which ends the zygote and its forks; kill it if it does not listen."""
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
    """Return the descriptor of a memory file with this content, which nobody can change any more."""
    descriptor = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
        file.seek(0)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALED)
    return descriptor


def signal_name(number: int) -> str:
    """Return a signal's name, or its number where it has none, as most real-time signals."""
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def tail_of(descriptor: int) -> str:
    """Return the end of a file as text; nothing of it is to be trusted."""
    start = max(0, os.fstat(descriptor).st_size - STDERR_SHOWN)
    return os.pread(descriptor, STDERR_SHOWN, start).decode(errors="replace").strip()


def package_folders(names: Collection[str]) -> tuple[str, ...]:
    """Return the folders on the search path that hold one of the named packages, or any installed one, in order.

    A project's checkout or a home on the path is left out: nobody installed into it, so it may hold anything.
    """
    entries = dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path if entry)
    return tuple(entry for entry in entries if _holds_packages(Path(entry), names))


def _holds_packages(folder: Path, names: Collection[str]) -> bool:
    if not folder.is_dir():  # a zip file, or nothing
        return False
    if any((folder / name / "__init__.py").is_file() for name in names):
        return True
    return next(folder.glob("*.dist-info/RECORD"), None) is not None

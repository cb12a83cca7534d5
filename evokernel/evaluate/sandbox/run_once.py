"""Runs one program, a compiler or a test executable, in the sandbox: no network, no secrets, nothing left behind."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.levels import CLEAN_PATH, Sandbox, SandboxLevel
from evokernel.evaluate.sandbox.seccomp import Children
from evokernel.languages.capped_pipes import OUTPUT_LIMIT_BYTES, CappedPipes
from evokernel.records.process_exit import ProcessExit

GRACE_S = 3.0
STARTED = b"started"
ENVIRONMENT = {"PATH": CLEAN_PATH, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one program may use.

    `memory_bytes` None leaves the address space open, as address sanitizers need it; then `resident_bytes` bounds the
    memory that its first process really uses, by looking again and again.
    """

    timeout_s: float = 60.0
    memory_bytes: int | None = 4 << 30
    resident_bytes: int | None = None
    file_bytes: int = 256 << 20
    processes: int = 64
    files: int = 256
    output_bytes: int = OUTPUT_LIMIT_BYTES

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names."""
        limits = {"CORE": 0, "FSIZE": self.file_bytes, "NOFILE": self.files, "CPU": int(self.timeout_s * 4) + 1}
        if self.memory_bytes is not None:
            limits["AS"] = self.memory_bytes
        if sandbox.as_root or sandbox.level is SandboxLevel.FULL:  # elsewhere all processes of the user would count
            limits["NPROC"] = self.processes
        return limits


@dataclass(frozen=True, slots=True)
class VisiblePaths:
    """What a program sees beside the system's own folders.

    Where programs get a user id of their own, the writable paths change their owner, and the read-only ones must be
    readable by everybody. `devices` are nodes it may drive beside /dev/null and its like.
    """

    read_only: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    folder: Path = Path("/")
    devices: Sequence[str] = ()

    def read_names(self) -> list[str]:
        """Return the absolute read-only paths."""
        return [str(path.absolute()) for path in self.read_only]

    def write_names(self) -> list[str]:
        """Return the absolute writable paths."""
        return [str(path.absolute()) for path in self.writable]


def run_confined(
    argv: Sequence[str],
    *,
    sandbox: Sandbox,
    paths: VisiblePaths | None = None,
    limits: ProcessLimits | None = None,
    environment: Mapping[str, str] | None = None,
    children: Children = Children.ANY,
) -> ProcessExit:
    """Run a program to its end in the sandbox; at the time limit all its processes are killed.

    Args:
        argv: the program, looked up on the standard path if it has no slash, and its arguments.
        sandbox: where it runs.
        paths: what it sees beside /usr and the system's library folders; the folder it starts in.
        limits: wall-clock time, memory, file size, processes, output.
        environment: variables beside PATH and the locale.
        children: what it may start. A tool needs `ANY`; with less, it is taken for a program made from a candidate,
            and is refused what a worker is refused but for being started. A tool that watches what it starts needs
            `WATCHED`.

    Raises:
        HarnessError: if the sandbox itself failed.
    """
    paths, limits = paths or VisiblePaths(), limits or ProcessLimits()
    program = shutil.which(argv[0], path=CLEAN_PATH)
    if program is None:
        raise HarnessError(f"program {argv[0]!r} not found")
    uid = sandbox.pick_uid()
    if uid is not None:
        for path in paths.writable:
            _give(path, uid)
    code = _filter(children) if sandbox.seccomp else b""
    read, write = paths.read_names(), paths.write_names()
    scratch = {"TMPDIR": write[0]} if write else {}  # compilers need room for files of their own
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    spec = {
        # Sanitizers read their own memory map; of other processes nothing is shown.
        **sandbox.restrictions(
            code, limits=limits.rlimits(sandbox), read=[*read, "/proc/self"], write=write, devices=paths.devices
        ),
        "control": theirs.fileno(),
        "uid": uid,
        "own_pid_namespace": sandbox.level is SandboxLevel.FULL,
        "resident_bytes": limits.resident_bytes,
        "folder": str(paths.folder.absolute()),
        "program": os.path.realpath(program),
        "argv": list(argv),
        "env": {**ENVIRONMENT, **scratch, **(environment or {})},
    }
    watched = children is Children.WATCHED
    command = sandbox.command(
        "process.run_program", spec, read=read, write=write, devices=paths.devices, shared_memory=watched
    )
    with ours:
        return _supervise(command, ours, theirs, limits)


def _filter(children: Children) -> bytes:
    if children in (Children.ANY, Children.WATCHED):
        return seccomp.tool_filter(watches=children is Children.WATCHED)
    return seccomp.program_filter(children)


def _supervise(command: list[str], ours: socket.socket, theirs: socket.socket, limits: ProcessLimits) -> ProcessExit:
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
    )
    theirs.close()
    with process, selectors.DefaultSelector() as selector:
        pipes = CappedPipes(process, selector, limit_bytes=limits.output_bytes)
        try:
            report = _await_report(pipes, selector, ours, start + limits.timeout_s)
        finally:
            ours.shutdown(socket.SHUT_RDWR)  # tells the supervisor to end everything
            _await_end(process)
        stdout, stderr = pipes.texts()
    duration_s = time.monotonic() - start
    return _completed(report, stdout, stderr, timed_out=duration_s >= limits.timeout_s, duration_s=duration_s)


def _await_report(
    pipes: CappedPipes, selector: selectors.BaseSelector, control: socket.socket, deadline: float
) -> bytes | None:
    """Return the supervisor's last word when all output is there or time ran out; None where it said nothing."""
    selector.register(control, selectors.EVENT_READ)
    report: bytes | None = None
    while selector.get_map() and (ready := pipes.wait(deadline)) is not None:
        if ready:
            message = control.recv(4096)
            report = message or report
            if message != STARTED:
                selector.unregister(control)
    return report


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:  # the supervisor was stopped by what it supervises
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _completed(report: bytes | None, stdout: str, stderr: str, *, timed_out: bool, duration_s: float) -> ProcessExit:
    if report is None:
        raise HarnessError(f"the sandbox did not start: {stderr.strip()[-500:]}")
    if report == STARTED:  # killed at the limit; or it killed its own supervisor, and with it itself
        return ProcessExit(None, signal.SIGKILL, stdout, stderr, timed_out, duration_s)
    facts = json.loads(report)
    code = os.waitstatus_to_exitcode(facts["status"])
    exit_code, number = (code, None) if code >= 0 else (None, -code)
    return ProcessExit(exit_code, number, stdout, stderr, False, duration_s, facts["too_large"])


def _give(path: Path, uid: int) -> None:
    os.chown(path, uid, uid, follow_symlinks=False)
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)

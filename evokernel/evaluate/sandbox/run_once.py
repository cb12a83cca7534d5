"""Runs one program, a compiler or a test executable, in the sandbox, and leaves none of its processes behind."""

import contextlib
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
from evokernel.evaluate.inside.process.run_program import STARTED
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.levels import CLEAN_PATH, Sandbox, SandboxLevel
from evokernel.evaluate.sandbox.seccomp import Children
from evokernel.languages.capped_pipes import OUTPUT_LIMIT_BYTES, CappedPipes
from evokernel.records.process_exit import ProcessExit

GRACE_S = 3.0
ENVIRONMENT = {"PATH": CLEAN_PATH, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of one program."""

    timeout_s: float = 60.0
    """Clock time."""
    memory_bytes: int | None = 4 << 30
    """Address space; None for no limit, as address sanitizers need it."""
    data_bytes: int | None = None
    """Memory of one process that is its own and writable; None for no limit."""
    resident_bytes: int | None = None
    """Memory in use by its first process, polled; None for no limit."""
    file_bytes: int = 256 << 20
    """Size of one file."""
    processes: int = 64
    """Processes at once."""
    files: int = 256
    """Open descriptors."""
    output_bytes: int = OUTPUT_LIMIT_BYTES
    """Size of stdout and of stderr."""

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names."""
        limits = {"CORE": 0, "FSIZE": self.file_bytes, "NOFILE": self.files, "CPU": int(self.timeout_s * 4) + 1}
        if self.memory_bytes is not None:
            limits["AS"] = self.memory_bytes
        if self.data_bytes is not None:
            limits["DATA"] = self.data_bytes
        if sandbox.as_root or sandbox.level is SandboxLevel.FULL:  # otherwise all processes of the user would count
            limits["NPROC"] = self.processes
        return limits


def let_read(folder: Path) -> None:
    """Let others read a folder and all in it: under root they run as users of their own, and a umask may be strict."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))


@dataclass(frozen=True, slots=True)
class VisiblePaths:
    """Paths that a program sees beside the system's own folders."""

    read_only: Sequence[Path] = ()
    """Must be world-readable where programs get a user id of their own."""
    writable: Sequence[Path] = ()
    """Change their owner where programs get a user id of their own."""
    folder: Path = Path("/")
    """The folder it starts in."""
    devices: Sequence[str] = ()
    """Nodes it may drive beside /dev/null and the like."""

    def read_names(self) -> list[str]:
        """Return the absolute read-only paths."""
        return [str(path.absolute()) for path in self.read_only]


def run_confined(
    argv: Sequence[str],
    *,
    sandbox: Sandbox,
    paths: VisiblePaths | None = None,
    limits: ProcessLimits | None = None,
    environment: Mapping[str, str] | None = None,
    children: Children = Children.ANY,
    hold: socket.socket | None = None,
) -> ProcessExit:
    """Run a program to its end in the sandbox; at the time limit all its processes are killed.

    Args:
        argv: the program, looked up on the standard path if it has no slash, and its arguments.
        paths: paths that it sees beside /usr and the system's library folders; the folder it starts in.
        limits: wall-clock time, memory, file size, processes, output.
        environment: variables beside PATH and the locale.
        children: processes that it may start. A tool needs `ANY`, and `WATCHED` where it looks into its children. With
            less the program counts as made from a candidate, and gets a worker's filter except that it may be started.
        hold: all its processes are killed once something can be read from it, or its other end is closed.

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
    read, write = paths.read_names(), [str(path.absolute()) for path in paths.writable]
    scratch = {"TMPDIR": write[0]} if write else {}  # compilers write temporary files
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    spec = {
        # Sanitizers read their own memory map; other processes stay hidden.
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
        return _supervise(command, ours, theirs, limits, hold=hold)


def _filter(children: Children) -> bytes:
    if children in (Children.ANY, Children.WATCHED, Children.NETWORKED):
        return seccomp.tool_filter(watches=children is Children.WATCHED, networked=children is Children.NETWORKED)
    return seccomp.program_filter(children)


def _supervise(
    command: list[str],
    ours: socket.socket,
    theirs: socket.socket,
    limits: ProcessLimits,
    *,
    hold: socket.socket | None = None,
) -> ProcessExit:
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
            report = _await_report(pipes, selector, ours, start + limits.timeout_s, hold=hold)
        finally:
            ours.shutdown(socket.SHUT_RDWR)  # tells the supervisor to end everything
            _await_end(process)
        stdout, stderr = pipes.texts()
    duration_s = time.monotonic() - start
    return _completed(report, stdout, stderr, timed_out=duration_s >= limits.timeout_s, duration_s=duration_s)


def _await_report(
    pipes: CappedPipes,
    selector: selectors.BaseSelector,
    control: socket.socket,
    deadline: float,
    *,
    hold: socket.socket | None,
) -> bytes | None:
    """Return the supervisor's last message when all output is there or at the time limit; None without one."""
    selector.register(control, selectors.EVENT_READ)
    if hold is not None:
        selector.register(hold, selectors.EVENT_READ)
    report: bytes | None = None
    while len(selector.get_map()) > (hold is not None) and (ready := pipes.wait(deadline)) is not None:
        if hold in ready:
            break
        if ready:
            message = control.recv(4096)
            report = message or report
            if message != STARTED:
                selector.unregister(control)
    return report


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:  # its own program stopped the supervisor
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _completed(report: bytes | None, stdout: str, stderr: str, *, timed_out: bool, duration_s: float) -> ProcessExit:
    if report is None:
        raise HarnessError(f"the sandbox did not start: {stderr.strip()[-500:]}")
    if report == STARTED:  # killed at the limit, or it killed its supervisor and so itself
        return ProcessExit(None, signal.SIGKILL, stdout, stderr, timed_out, duration_s)
    status, too_large = map(int, report.split())
    code = os.waitstatus_to_exitcode(status)
    exit_code, number = (code, None) if code >= 0 else (None, -code)
    return ProcessExit(exit_code, number, stdout, stderr, False, duration_s, bool(too_large))


def _give(path: Path, uid: int) -> None:
    os.chown(path, uid, uid, follow_symlinks=False)
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)

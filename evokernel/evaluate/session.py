"""The judge's side of worker mode: a zygote in the sandbox, and a single-use worker for each candidate."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

from evokernel.errors import HarnessError, WorkerDied, WorkerError
from evokernel.evaluate import seccomp
from evokernel.evaluate.arena import Arena
from evokernel.evaluate.runner import KILL_TIMEOUT_S, MESSAGE_BYTES, RunnerProcess
from evokernel.evaluate.sandbox import Level, Sandbox
from evokernel.evaluate.trampoline import Trampoline

START_TIMEOUT_S = 15.0
ATTACH_TIMEOUT_S = 60.0
STDERR_LIMIT_BYTES = 64 * 1024
STDERR_SHOWN = 2000
ABORTED_EXIT = 128 + signal.SIGABRT
STACK_BYTES = 64 << 20
SEALED = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class LoadFailed(WorkerError):
    """The artifact could not be loaded, or has no function `run`; the message is the loader's."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What one worker may use. `cpus` are the cores it may run on; empty leaves it free."""

    memory_bytes: int = 4 << 30
    cpu_s: int = 600
    threads: int = 1
    cpus: tuple[int, ...] = ()

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names."""
        limits = {
            "AS": self.memory_bytes,
            "CPU": self.cpu_s,
            "FSIZE": STDERR_LIMIT_BYTES,
            "NOFILE": 64,
            "CORE": 0,
            "STACK": STACK_BYTES,
        }
        if sandbox.as_root:
            limits["NPROC"] = self.threads
        elif sandbox.level is Level.FULL:  # counted together in one user namespace: bubblewrap, zygote, all workers
            limits["NPROC"] = 32 + self.threads
        return limits


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ended: its wait status, peak memory, and how many processes it had left behind."""

    status: int
    max_rss_bytes: int
    strangers: int


class Worker(RunnerProcess):
    """One loaded candidate. A context manager: leaving it ends the process and all it started."""

    def __init__(self, pool: "WorkerPool", number: int, channel: socket.socket, handle: int, stderr: int) -> None:
        super().__init__(channel, handle)
        self._pool = pool
        self._number = number
        self._stderr = stderr

    def attach(self, name: str, arena: Arena, scalars: Mapping[str, int | float]) -> None:
        """Map an arena into the worker, its inputs read-only. `scalars` are passed by value in each call.

        Raises:
            WorkerDied, WorkerTimeout: the worker is gone then, perhaps since the arena exceeds its memory limit.
        """
        request = {
            "attach": name,
            "sets": arena.sets,
            "strides": [arena.inputs.stride, arena.outputs.stride],
            "arguments": self._pool.trampoline.arguments(arena, scalars),
        }
        self._ask(request, (arena.inputs.fd, arena.outputs.fd), b"attached", ATTACH_TIMEOUT_S)

    def load(self, timeout_s: float) -> None:
        """Wait until the candidate is loaded and its constructors have run.

        Raises:
            LoadFailed: with the loader's message.
            WorkerDied, WorkerTimeout: the worker is gone then.
        """
        self._await(b"loaded", timeout_s)

    def stderr(self) -> str:
        """Return the end of what the worker wrote to stderr; untrusted text."""
        size = os.fstat(self._stderr).st_size
        start = max(0, size - STDERR_SHOWN)
        return os.pread(self._stderr, STDERR_SHOWN, start).decode(errors="replace").strip()

    def close(self) -> None:
        """End the process and all it started. Allowed twice."""
        if not self._closed:
            super().close()
            os.close(self._stderr)
            self._pool.forget(self._number)

    def _refuse(self, message: bytes) -> NoReturn:
        with contextlib.suppress(ValueError, AttributeError):
            reason = json.loads(message).get("error")
            if isinstance(reason, str):
                raise LoadFailed(reason)
        super()._refuse(message)

    def _died(self) -> WorkerDied:
        ending = self._pool.ending(self._number, 0.5)
        note = ""
        if ending is None:  # it closed its end but lives on
            self._kill()
            ending = self._pool.ending(self._number, KILL_TIMEOUT_S)
            note = " after it closed its channel"
        if ending is None:
            return WorkerDied("the worker is gone, and so is the zygote that could say why")
        code = os.waitstatus_to_exitcode(ending.status)
        text = self.stderr()
        tail = f"; it wrote: {text}" if text else ""
        number = signal.SIGABRT if code == ABORTED_EXIT else -code
        if number > 0:
            name = signal.Signals(number).name
            return WorkerDied(f"the worker was killed by {name}{note}{tail}", signal=number)
        return WorkerDied(f"the worker exited with {code}{note}{tail}", exit_code=code)


class WorkerPool:
    """Owns the zygote; starts it on entry, ends it and all workers on exit, restarts it if it dies.

    To be used by one thread at a time. Nothing outlives the process that made it, however that ends: the zygote
    watches that process, and a worker dies with the zygote.
    """

    def __init__(self, trampoline: Trampoline, *, sandbox: Sandbox, limits: WorkerLimits | None = None) -> None:
        self.trampoline = trampoline
        self.sandbox = sandbox
        self.limits = limits or WorkerLimits()
        self._numbers = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._stderr = -1
        self._endings: dict[int, Ending] = {}
        self._workers: dict[int, Worker] = {}

    def __enter__(self) -> Self:
        if self._control is None:
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, artifact: bytes, *, timeout_s: float) -> Worker:
        """Start a worker and load a shared object into it.

        Raises:
            LoadFailed: with the loader's message.
            WorkerDied, WorkerTimeout: while loading; the worker is gone then.
            HarnessError: if no worker can be started.
        """
        worker = self._spawn(artifact)
        try:
            worker.load(timeout_s)
        except BaseException:
            worker.close()
            raise
        return worker

    def ending(self, number: int, timeout_s: float) -> Ending | None:
        """Return how a worker ended, or None if that is not known in time."""
        deadline = time.monotonic() + timeout_s
        while number not in self._endings and self._control is not None:
            try:
                self._read_control(deadline)
            except (HarnessError, TimeoutError):
                break
        return self._endings.get(number)

    def forget(self, number: int) -> None:
        """Drop a closed worker, once its ending was reported."""
        self.ending(number, KILL_TIMEOUT_S)
        self._endings.pop(number, None)
        self._workers.pop(number, None)

    def close(self) -> None:
        """End all workers and the zygote. Allowed twice."""
        for worker in list(self._workers.values()):
            worker.close()
        self._stop()

    def _spawn(self, artifact: bytes) -> Worker:
        self._numbers += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        library, stderr = _sealed_file(artifact), os.memfd_create("stderr", os.MFD_CLOEXEC)
        descriptors = (theirs.fileno(), library, stderr)
        try:
            handle = self._request_worker(descriptors)
        except BaseException:
            ours.close()
            os.close(stderr)
            raise
        finally:
            theirs.close()
            os.close(library)
        self._workers[self._numbers] = Worker(self, self._numbers, ours, handle, stderr)
        return self._workers[self._numbers]

    def _request_worker(self, descriptors: tuple[int, ...]) -> int:
        """Ask the zygote for a worker, a new one if this one has died; returns the process handle."""
        request = json.dumps({"number": self._numbers, "uid": self.sandbox.pick_uid()}).encode()
        for _ in range(2):
            if self._control is None:
                self._start()
            try:
                assert self._control is not None
                socket.send_fds(self._control, [request], descriptors)
                while (handle := self._read_control(time.monotonic() + START_TIMEOUT_S)) is None:
                    pass
            except (BrokenPipeError, ConnectionResetError, TimeoutError, _ZygoteGone):
                self._stop()
                continue
            return handle
        raise HarnessError("the zygote died twice while starting a worker")

    def _read_control(self, deadline: float) -> int | None:
        """Take in one message of the zygote; returns the process handle if it brings one."""
        if self._control is None:
            raise _ZygoteGone("the zygote is gone")
        self._control.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
        except ConnectionResetError:
            raise _ZygoteGone("the zygote is gone") from None
        if not message:
            raise _ZygoteGone("the zygote is gone")
        report: dict[str, Any] = json.loads(message)
        if "fault" in report:
            raise HarnessError(f"the zygote cannot start a worker: {report['fault']}")
        if "ended" in report:
            facts = Ending(report["status"], report["max_rss_kib"] * 1024, report["strangers"])
            self._endings[report["ended"]] = facts
        return descriptors[0] if descriptors else None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        judge = os.pidfd_open(os.getpid())
        trampoline = _sealed_file(self.trampoline.path.read_bytes())
        self._stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
        inherited = {"control": theirs.fileno(), "judge": judge, "trampoline": trampoline}
        self._process = subprocess.Popen(
            self._command(inherited),
            env={**dict.fromkeys(THREAD_VARIABLES, str(self.limits.threads)), "OMP_DYNAMIC": "false"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            pass_fds=tuple(inherited.values()),
            start_new_session=True,
        )
        theirs.close()
        os.close(judge)
        os.close(trampoline)
        self._control = ours
        try:
            self._read_control(time.monotonic() + START_TIMEOUT_S)
        except (_ZygoteGone, TimeoutError):
            text = os.pread(self._stderr, STDERR_SHOWN, 0).decode(errors="replace").strip()
            self._stop()
            raise HarnessError(f"the zygote did not start ({self.sandbox.describe()}): {text}") from None

    def _command(self, inherited: Mapping[str, int]) -> list[str]:
        children = seccomp.Children.NONE if self.limits.threads == 1 else seccomp.Children.THREADS
        code = seccomp.worker_filter(children) if self.sandbox.seccomp else b""
        isolated = self.sandbox.level is Level.FULL
        spec = {
            **self.sandbox.restrictions(code, limits=self.limits.rlimits(self.sandbox)),
            **inherited,
            "own_pid_namespace": isolated,
            "cpus": list(self.limits.cpus),
        }
        # It outlives the thread that started it, and watches the judge's process by itself.
        return self.sandbox.command("zygote", spec, die_with_thread=False)

    def _stop(self) -> None:
        """Hang up, which ends the zygote and its workers; kill it if it does not listen."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(KILL_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
            os.close(self._stderr)


class _ZygoteGone(HarnessError):
    """The zygote's socket is closed."""


def _sealed_file(data: bytes) -> int:
    descriptor = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALED)
    return descriptor

"""Compilation by Python programs: a fork of a warm, sandboxed process with torch answers each request.

The fork costs milliseconds where a new interpreter would take seconds to import. It ends with its request, so a
candidate's code or compiler in it cannot affect the next one.

Without namespaces and under root a request's own user cannot enter folders that only root may. Where the interpreter or
its packages lie in one, a module that was neither preloaded nor imported by `warm` is not found.
"""

import contextlib
import json
import os
import select
import signal
import socket
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evokernel.errors import HarnessError
from evokernel.evaluate.inside.untrusted.compile_child import HEADER
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.fork_server import (
    ForkExit,
    ForkServer,
    ForkServerSpec,
    package_folders,
    sealed_file,
    signal_name,
    tail_of,
)
from evokernel.evaluate.sandbox.levels import CLEAN_PATH, SCRATCH_MOUNT, Sandbox, SandboxLevel, in_system, python_paths
from evokernel.evaluate.sandbox.timed_process import KILL_TIMEOUT_S
from evokernel.languages.toolchain import CompileAnswer

JSON_LIMIT_BYTES = 8 << 20
BLOB_LIMIT_BYTES = 64 << 20
DYING_S = 1.0
BLOCK_BYTES = 1 << 20
ENVIRONMENT = {
    "PATH": CLEAN_PATH,
    "HOME": "/",
    "USER": "nobody",  # torch asks for a name, and the user ids of requests have none
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB of the address space that is limited
}


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """Limits of one request."""

    memory_bytes: int = 4 << 30
    """Address space of each process, beside that of the libraries."""
    file_bytes: int = 256 << 20
    """Size of one file."""
    scratch_bytes: int = 512 << 20
    """Size of the folder for temporary files."""
    processes: int = 64
    """Processes of one request at once."""
    start_timeout_s: float = 60.0
    """Start of the zygote, with its imports."""
    blob_bytes: int = BLOB_LIMIT_BYTES
    """Bytes beside an answer."""

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names, without memory and processor time."""
        limits = {"CORE": 0, "FSIZE": self.file_bytes, "NOFILE": 256}
        if sandbox.as_root:
            limits["NPROC"] = self.processes
        elif sandbox.level is SandboxLevel.FULL:  # the kernel counts those of all running requests together
            limits["NPROC"] = self.processes * (os.cpu_count() or 1)
        return limits


@dataclass(frozen=True, slots=True)
class CompilerPrograms:
    """Programs of a compile pool, and their environment."""

    programs: Mapping[str, str]
    """Modules of the programs by name."""
    preload: Sequence[str] = ()
    """Modules imported before the first fork."""
    warm: Sequence[str] = ()
    """Modules whose function `warm()` is called once, before the first fork."""
    folders: Sequence[str] = ()
    """Further folders of modules, beside those of installed packages."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""
    readable: Sequence[str] = ()
    """Further folders that programs may read."""


class CompilePool:
    """Runs sandboxed programs for any number of threads at once. Starts its zygote at the first call.

    It ends with the last reference to it, with `close`, or with this process, however that ends.
    """

    def __init__(self, sandbox: Sandbox, toolbox: CompilerPrograms, *, limits: CompileLimits | None = None) -> None:
        limits = limits or CompileLimits()
        self.host = ForkServer(sandbox, _plan(sandbox, toolbox, limits))
        self._blob_bytes = limits.blob_bytes
        self._level = sandbox.level
        self._finalizer = weakref.finalize(self, self.host.close)

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        """Answer a request; the answer is untrusted. The clock starts when the process has been forked.

        A program that raises, crashes, hangs or floods yields a `CompileAnswer` with an error, and none of its
        processes is left. Raises `HarnessError` if no process can be started, or the zygote ended.
        """
        with contextlib.ExitStack() as stack:
            call = {
                "program": program,
                "request": dict(request),
                "folder": self._folder(stack),
                "cpu_s": int(timeout_s * 4) + 1,
            }
            sealed = sealed_file(json.dumps(call).encode())
            stack.callback(os.close, sealed)
            stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
            stack.callback(os.close, stderr)
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                number, handle = self.host.fork((theirs.fileno(), sealed, stderr))
            stack.callback(os.close, handle)
            return self._await(number, handle, ours, stderr, timeout_s=timeout_s)

    def close(self) -> None:
        """End the zygote and all requests. Allowed twice."""
        self._finalizer()

    def _folder(self, stack: contextlib.ExitStack) -> str:
        """Return the folder that the child may write; inside namespaces the child mounts its own over an empty one."""
        if self._level is SandboxLevel.FULL:
            return str(SCRATCH_MOUNT)
        made = tempfile.TemporaryDirectory(prefix="evokernel-forge-", ignore_cleanup_errors=True)
        return stack.enter_context(made)

    def _await(
        self, number: int, handle: int, channel: socket.socket, stderr: int, *, timeout_s: float
    ) -> CompileAnswer:
        reply: CompileAnswer | None = None
        try:
            reply = _receive(channel, time.monotonic() + timeout_s, blob_limit=self._blob_bytes)
        except TimeoutError:
            reply = CompileAnswer(None, error=f"no answer within {timeout_s:g} s; killed", timed_out=True)
        except (EOFError, ConnectionResetError):
            _has_ended(handle, DYING_S)  # so that its exit status is its own
        finally:
            ending = self._end(number, handle)
        if reply is not None:
            return reply
        if ending is None:
            raise HarnessError("the compile pool's zygote ended while it was at work")
        return CompileAnswer(None, error=_describe(ending, tail_of(stderr)))

    def _end(self, number: int, handle: int) -> ForkExit | None:
        with contextlib.suppress(OSError):  # of one that has ended; its end is waited for next
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not _has_ended(handle, KILL_TIMEOUT_S):
            raise HarnessError(f"a process of the compile pool survived SIGKILL for {KILL_TIMEOUT_S:g} s")
        return self.host.forget(number)


def _plan(sandbox: Sandbox, toolbox: CompilerPrograms, limits: CompileLimits) -> ForkServerSpec:
    packages = (*toolbox.folders, *package_folders(toolbox.preload))
    outside = [folder for folder in (*packages, *toolbox.readable) if not in_system(Path(folder))]
    code = seccomp.tool_filter() if sandbox.seccomp else b""
    read = [*python_paths(), *outside, "/proc/self"]
    return ForkServerSpec(
        "untrusted.compile_child",
        sandbox.restrictions(code, limits=limits.rlimits(sandbox), read=read),
        prepare="prepare",
        packages=packages,
        preload=toolbox.preload,
        options={
            "programs": dict(toolbox.programs),
            "warm": list(toolbox.warm),
            "scratch": str(SCRATCH_MOUNT),
            "memory_bytes": limits.memory_bytes,
            "scratch_bytes": limits.scratch_bytes,
        },
        read=outside,
        environment={**ENVIRONMENT, **toolbox.environment},
        start_timeout_s=limits.start_timeout_s,
    )


def _receive(channel: socket.socket, deadline: float, *, blob_limit: int) -> CompileAnswer:
    """Read one frame. Raises `TimeoutError` at the deadline, `EOFError` where the other end closes early."""
    fine, text_bytes, blob_bytes = HEADER.unpack(_read(channel, HEADER.size, deadline))
    if text_bytes > JSON_LIMIT_BYTES or blob_bytes > blob_limit:
        return CompileAnswer(
            None, error=f"the answer is too large: {text_bytes} bytes of JSON and {blob_bytes} beside it"
        )
    text = _read(channel, text_bytes, deadline)
    if not fine:
        return CompileAnswer(None, error=text.decode(errors="replace"))
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        return CompileAnswer(None, error=f"the answer is no JSON: {error}")
    if not isinstance(answer, dict):
        return CompileAnswer(None, error=f"the answer is no JSON object but {type(answer).__name__}")
    return CompileAnswer(answer, bytes(_read(channel, blob_bytes, deadline)))


def _read(channel: socket.socket, size: int, deadline: float) -> bytearray:
    read = bytearray()
    while len(read) < size:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        channel.settimeout(remaining)
        block = channel.recv(min(BLOCK_BYTES, size - len(read)))
        if not block:
            raise EOFError
        read += block
    return read


def _has_ended(handle: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(int(timeout_s * 1000)))


def _describe(ending: ForkExit, said: str) -> str:
    how = f"killed by {signal_name(-ending.code)}" if ending.code < 0 else f"exited with {ending.code}"
    return f"{how}; it wrote: {said}" if said else how

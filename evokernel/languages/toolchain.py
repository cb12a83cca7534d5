"""Starting compilers: protocols that the sandbox implements, and plain runners for trusted sources."""

import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evokernel.errors import LanguageError
from evokernel.languages.capped_pipes import OUTPUT_LIMIT_BYTES, CappedPipes
from evokernel.records.process_exit import ProcessExit

_PR_SET_PDEATHSIG = 1
_PROGRAMS = Path(__file__).parents[1] / "evaluate"  # the package `inside`, which imports nothing of ours
_FORGE_MEMORY_BYTES = 64 << 30  # addresses; torch alone reserves several GiB
_FORGE_START = """
import importlib, json, os, pathlib, sys
sys.path.append(sys.argv[1])
request = json.loads(pathlib.Path("request.json").read_text())
answer, blob = importlib.import_module("inside.untrusted." + sys.argv[2]).answer(request, sys.argv[3])
pathlib.Path("answer.json").write_text(json.dumps(answer))
pathlib.Path("blob").write_bytes(blob)
os._exit(0)  # an interpreter tidies torch up for half a second
"""
_LIBC = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be imported


class CompilerRunner(Protocol):
    """Runs one command in a folder that it may read and write; returns when it and all its children have ended."""

    def __call__(self, argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> ProcessExit:
        """Run `argv` with `workdir` as the current folder. Raises `LanguageError` where it cannot be started."""


def run_plain(argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> ProcessExit:
    """Run a command without a sandbox, in a process group of its own that ends with it.

    Only for trusted sources: tests, and versions of the machine's tools. At the time limit the whole group is killed.
    If this process dies the command gets SIGKILL (its children may finish on their own). Raises `LanguageError` if the
    command cannot be started.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(workdir), "TMPDIR": str(workdir)}
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=workdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_limits(memory_bytes),
        )
    except OSError as error:
        raise LanguageError(f"cannot start {argv[0]!r}: {error.strerror}") from None
    with process:
        try:
            stdout, stderr, timed_out = _watch(process, timeout_s)
        finally:
            _kill_group(process.pid)  # before the leader is reaped, so that its number cannot belong to another
        code = process.wait()
    return ProcessExit(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
        duration_s=time.monotonic() - start,
    )


@dataclass(frozen=True, slots=True)
class CompileAnswer:
    """Answer of a warm process."""

    answer: Mapping[str, Any] | None
    """A JSON document; None where the process gave none."""
    blob: bytes = b""
    """Bytes beside the document."""
    error: str = ""
    """The failure of the process, in words; empty after an answer."""
    timed_out: bool = False
    """The process was killed at its time limit."""


class PythonCompiler(Protocol):
    """Runs a program of `evaluate/inside` in a single-use process with its modules imported.

    The program defines `answer(request, folder)`, which returns a JSON document and bytes; it may write to `folder`.
    """

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        """Return what the program answered. Blocking; thread-safe. Raises `HarnessError` for faults of its own."""


def forge_plain(program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
    """Run a program in a fresh Python process without a sandbox; only for trusted sources.

    Raises `LanguageError` if Python cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="evokernel-", ignore_cleanup_errors=True) as name:
        folder, scratch = Path(name), Path(name, "scratch")
        scratch.mkdir()
        (folder / "request.json").write_text(json.dumps(request))
        argv = [sys.executable, "-I", "-c", _FORGE_START, str(_PROGRAMS), program, str(scratch)]
        done = run_plain(argv, workdir=folder, timeout_s=timeout_s, memory_bytes=_FORGE_MEMORY_BYTES)
        if done.timed_out:
            return CompileAnswer(None, error=f"no answer within {timeout_s:g} s", timed_out=True)
        if not done.ok:
            ended = f"signal {done.signal}" if done.signal is not None else f"exit code {done.exit_code}"
            return CompileAnswer(None, error=f"ended with {ended}\n{done.stderr[-2000:]}")
        return CompileAnswer(json.loads((folder / "answer.json").read_text()), (folder / "blob").read_bytes())


def _limits(memory_bytes: int) -> Callable[[], None]:
    def apply() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return apply


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _watch(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[str, str, bool]:
    """Read both pipes until the process ends, even if others hold them open; return stdout, stderr, timed out."""
    deadline = time.monotonic() + timeout_s
    end = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            pipes = CappedPipes(process, selector, limit_bytes=OUTPUT_LIMIT_BYTES)
            selector.register(end, selectors.EVENT_READ)
            while (ended := pipes.wait(deadline)) == []:
                pass
            return *pipes.texts(), ended is None
    finally:
        os.close(end)

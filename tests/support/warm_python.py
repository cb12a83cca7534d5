"""Runs `python -c` in forks of processes that have imported torch, which a new process does for seconds."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from evokernel.records.process_exit import ProcessExit

NO_GPU = not Path("/dev/nvidiactl").exists()
"""With a GPU torch's compiler asks the driver as it is imported, whose state cannot be forked."""
_FORKS = """
import gc, importlib, json, os, sys, tempfile, traceback
gc.disable()  # collections take a fifth of the time of the imports
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()
for line in sys.stdin:
    call = json.loads(line)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            for stream in (1, 2):
                os.dup2(os.open(f"{call['said']}/{stream}", os.O_WRONLY | os.O_CREAT), stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(call["folder"])
            os.environ.update(HOME=call["folder"], TMPDIR=call["folder"])
            tempfile.tempdir = None
            sys.argv = ["-c", *call["arguments"]]
            gc.enable()
            exec(call["code"], {"__name__": "__main__"})
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class WarmPython:
    """A runner of commands `python -c`: one warm process for each set of variables that a call's first argument names.

    `preload` are modules to import there by the name of a variable, and those of all others under "".
    """

    def __init__(self, preload: Mapping[str, Sequence[str]]) -> None:
        self._preload = preload
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def __call__(self, argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> ProcessExit:
        """Run a command; `memory_bytes` is not limited."""
        _, option, code, *arguments = argv
        assert option == "-c"
        server, start = self._server(json.loads(arguments[0])["environment"]), time.monotonic()
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as said:
            call = {"code": code, "arguments": arguments, "folder": str(workdir.absolute()), "said": said}
            server.stdin.write(json.dumps(call).encode() + b"\n")
            pid = int(server.stdout.readline())
            timed_out = not _is_told(server.stdout, timeout_s)
            if timed_out:
                os.killpg(pid, signal.SIGKILL)
            ended = int(server.stdout.readline())
            stdout, stderr = (Path(said, stream).read_text(errors="replace") for stream in "12")
        return ProcessExit(
            exit_code=ended if ended >= 0 else None,
            signal=-ended if ended < 0 else None,
            stdout=stdout,
            stderr=stderr,
            timed_out=timed_out,
            duration_s=time.monotonic() - start,
        )

    def close(self) -> None:
        """End the warm processes."""
        for server in self._servers.values():
            with server:
                server.kill()

    def _server(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        key = json.dumps(environment, sort_keys=True)
        if key not in self._servers:
            name = next((name for name in self._preload if name in environment), "")
            self._servers[key] = subprocess.Popen(
                [sys.executable, "-c", _FORKS, *self._preload[name]],
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,  # a line that is read ahead would not be seen by `select`
            )
        return self._servers[key]


@cache
def warm_python(*preload: str) -> WarmPython:
    """Return the runner of this session whose processes have imported some modules; it ends with this process."""
    started = WarmPython({"": preload})
    atexit.register(started.close)
    return started


def _is_told(stream: IO[bytes], seconds: float) -> bool:
    return bool(select.select([stream], [], [], seconds)[0])

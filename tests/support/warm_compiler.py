"""A forge for tests: warm like the sandbox's, plain like `toolchain.forge_plain`; for trusted sources only."""

import importlib
import multiprocessing
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from evokernel.languages.toolchain import CompileAnswer

_PROGRAMS = "evokernel.evaluate.inside.untrusted"


class WarmForge:
    """Answers each request in a fresh fork of a process that has torch, and triton where it is installed."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["torch", "triton", f"{_PROGRAMS}.triton_build"])

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(program, dict(request), theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            if not ours.poll(timeout_s):
                return CompileAnswer(None, error="too late", timed_out=True)
            return CompileAnswer(*ours.recv())
        except EOFError:
            return CompileAnswer(None, error="the process ended without an answer")
        finally:
            process.kill()
            process.join()
            ours.close()


def _answer(program: str, request: dict[str, Any], channel: Connection) -> None:
    answer = importlib.import_module(f"{_PROGRAMS}.{program}").answer
    with tempfile.TemporaryDirectory() as folder:
        channel.send(answer(request, folder))

"""A forge for tests: warm like the sandbox's, plain like `toolchain.forge_plain`; for trusted sources only."""

import multiprocessing
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from evokernel.languages.toolchain import Forged

_BUILDER = "evokernel.evaluate.inside.triton_build"


class WarmForge:
    """Answers each request in a fresh fork of a process that has torch and triton."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["torch", "triton", _BUILDER])

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> Forged:
        assert _BUILDER.endswith(program)
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(dict(request), theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            if not ours.poll(timeout_s):
                return Forged(None, error="too late", timed_out=True)
            return Forged(*ours.recv())
        except EOFError:
            return Forged(None, error="the process ended without an answer")
        finally:
            process.kill()
            process.join()
            ours.close()


def _answer(request: dict[str, Any], channel: Connection) -> None:
    from evokernel.evaluate.inside import triton_build

    with tempfile.TemporaryDirectory() as folder:
        channel.send(triton_build.answer(request, folder))

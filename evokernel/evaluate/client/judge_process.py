"""The engine's handle on one judge process."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.errors import EvokernelError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.wire import Message, pack, receive_async

_PACKAGES = str(Path(__file__).parents[3])
_ERRORS: Mapping[str, type[EvokernelError]] = {"TaskError": TaskError, "LanguageError": LanguageError}
_GRACE_S = 5.0


class JudgeLost(HarnessError):
    """The judge ended, hung or failed by its own fault; what it worked on may be tried again with another."""


class JudgeClient:
    """Starts a judge process and talks to it, one question at a time.

    Args:
        limit_s: the longest an answer may take, in s.
        environment: variables that the judge gets beside ours.
    """

    def __init__(self, limit_s: float, environment: Mapping[str, str] | None = None) -> None:
        self._limit_s = limit_s
        self._environment = environment or {}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stderr = -1

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process is not None and self._process.returncode is None and self._writer is not None

    async def start(self, setup: Mapping[str, Any]) -> Message:
        """Start the process and let it prepare; returns what it says of itself.

        Raises:
            TaskError: the task is not fit; the judge's own words.
            LanguageError: a tool is missing.
            JudgeLost: it could not start.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await self._spawn(theirs.fileno())
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        return await self.ask({"op": "start", **setup})

    async def _spawn(self, end: int) -> asyncio.subprocess.Process:
        self._stderr = os.memfd_create("judge-stderr")
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "evokernel.evaluate.judge.process", str(end), str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=(end,),
            start_new_session=True,  # an interrupt at the terminal is the engine's to handle
            env={**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(_python_path())},
        )

    async def ask(self, message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Message:
        """Send one message and return the answer; a cancelled question ends the judge.

        Raises:
            JudgeLost: it ended, hung or failed.
        """
        if not self.alive or self._reader is None or self._writer is None:
            raise JudgeLost("the judge is not running")
        try:
            async with asyncio.timeout(self._limit_s):
                self._writer.write(pack(message, blobs))
                await self._writer.drain()
                answer = await receive_async(self._reader)
        except TimeoutError:
            await self.close(kill=True)
            raise JudgeLost(f"the judge did not answer {message['op']!r} within {self._limit_s:.0f} s") from None
        except (OSError, EOFError):
            said = await self._last_words()
            raise JudgeLost(f"the judge ended during {message['op']!r}{said}") from None
        except asyncio.CancelledError:
            await self.close(kill=True)
            raise
        if "error" in answer:
            raise _ERRORS.get(answer["error"], JudgeLost)(answer["text"])
        return answer

    async def close(self, *, kill: bool = False) -> None:
        """End the process; idempotent."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()  # the judge ends when our end closes
        if self._process is not None:
            await self._end(self._process, kill=kill)
        if writer is not None:
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1

    async def _end(self, process: asyncio.subprocess.Process, *, kill: bool) -> None:
        if not kill:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_S)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _last_words(self) -> str:
        text = ""
        if self._stderr >= 0:  # closed already where the search is being torn down
            text = os.pread(self._stderr, 1 << 20, 0).decode(errors="replace")[-2000:].strip()
        await self.close(kill=True)
        code = self._process.returncode if self._process else None
        return f" (exit {code})" + (f":\n{text}" if text else "")


def _python_path() -> list[str]:
    """Return the search path under which the child finds the packages this process runs."""
    rest = os.environ.get("PYTHONPATH", "")
    return [_PACKAGES, *(rest.split(os.pathsep) if rest else [])]

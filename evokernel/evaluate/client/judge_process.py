"""The engine's handle on one judge process."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from evokernel.errors import EvokernelError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.wire import Message, pack, receive_async

_PACKAGES = str(Path(__file__).parents[3])
_ERRORS: Mapping[str, type[EvokernelError]] = {"TaskError": TaskError, "LanguageError": LanguageError}
_GRACE_S = 5.0


class JudgeLost(HarnessError):
    """The judge ended, hung or failed by its own fault; another judge may repeat its work."""


class JudgeClient:
    """Talks to a judge process, one question at a time; `launch` starts one.

    Args:
        process: the judge.
        connection: both directions of the socket to it.
        stderr: a memory file with the judge's stdout and stderr; closed with this client.
        limit_s: the longest an answer may take, in s.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        stderr: int,
        limit_s: float,
    ) -> None:
        self._process = process
        self._reader, self._writer = connection
        self._stderr = stderr
        self._limit_s = limit_s
        self._open = True

    @classmethod
    async def launch(cls, limit_s: float, environment: Mapping[str, str] | None = None) -> Self:
        """Start a judge process, which waits for its setup; `environment` adds to the variables of this process."""
        stderr = os.memfd_create("judge-stderr")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await _spawn(theirs.fileno(), stderr=stderr, environment=environment or {})
            try:
                connection = await asyncio.open_connection(sock=ours)
            except BaseException:
                process.kill()
                await process.wait()
                raise
        except BaseException:
            ours.close()
            os.close(stderr)
            raise
        return cls(process, connection, stderr=stderr, limit_s=limit_s)

    @property
    def alive(self) -> bool:
        """Say whether it can still be asked."""
        return self._open and self._process.returncode is None

    async def ask(self, message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Message:
        """Send one message and return the answer; a cancelled question ends the judge.

        Raises:
            TaskError, LanguageError: the setup cannot be followed; the judge's own words.
            JudgeLost: the judge ended, hung or failed.
        """
        if not self.alive:
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
        was_open, self._open = self._open, False
        if was_open:
            self._writer.close()  # the judge ends when our end closes
        await self._end(kill=kill)
        if was_open:
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1

    async def _end(self, *, kill: bool) -> None:
        if not kill:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE_S)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _last_words(self) -> str:
        text = ""
        if self._stderr >= 0:  # closed already while the search shuts down
            text = os.pread(self._stderr, 1 << 20, 0).decode(errors="replace")[-2000:].strip()
        await self.close(kill=True)
        return f" (exit {self._process.returncode})" + (f":\n{text}" if text else "")


async def _spawn(end: int, *, stderr: int, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "evokernel.evaluate.judge.process", str(end), str(os.getpid())),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stderr,
        stderr=stderr,
        pass_fds=(end,),
        start_new_session=True,  # an interrupt at the terminal is the engine's to handle
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(_python_path())},
    )


def _python_path() -> list[str]:
    """Return the search path under which the child finds the packages this process runs."""
    rest = os.environ.get("PYTHONPATH", "")
    return [_PACKAGES, *(rest.split(os.pathsep) if rest else [])]

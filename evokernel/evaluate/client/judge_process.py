"""The engine's handles on judge processes, and on the host that forks them."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from evokernel.errors import EvokernelError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.memory.heap import NO_SMALL_CACHE
from evokernel.evaluate.sandbox.fork_server import signal_name
from evokernel.evaluate.wire import Message, pack, receive_async

logger = logging.getLogger(__name__)

_PACKAGES = str(Path(__file__).parents[3])
_ERRORS: Mapping[str, type[EvokernelError]] = {"TaskError": TaskError, "LanguageError": LanguageError}
_GRACE_S, _KILLED_S = 5.0, 10.0
_ANSWER_LIMIT_S = 900.0


class JudgeLost(HarnessError):
    """The judge ended, hung or failed by its own fault; another judge may repeat its work."""


class JudgeClient:
    """Talks to a judge process, one question at a time.

    Args:
        connection: both directions of the socket to it.
        stderr: a memory file with the judge's stdout and stderr; closed with this client.
        limit_s: the longest an answer may take, in s.
    """

    def __init__(
        self,
        process: "_JudgeProcess",
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

    @property
    def alive(self) -> bool:
        """Say whether it can still be asked."""
        return self._open and not self._process.ended

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
        self._process.kill()
        try:
            await asyncio.wait_for(self._process.wait(), _KILLED_S)
        except TimeoutError:  # a driver may keep what is left of it for long
            logger.warning(
                "a judge that was killed has not ended within %.0f s, and is waited for no longer", _KILLED_S
            )

    async def _last_words(self) -> str:
        text = ""
        if self._stderr >= 0:  # closed already while the search shuts down
            text = _end_of(self._stderr)
        await self.close(kill=True)
        text = text or self._process.host.words()
        how = _ending(await self._process.wait()) if self._process.ended else "killed, and not ended yet"
        return f" ({how})" + (f":\n{text}" if text else "")


def _ending(code: int) -> str:
    """Return how a process ended, by its exit code: negative for a signal."""
    if code >= 0:
        return f"exit {code}"
    cause = "memory that ran out" if code == -signal.SIGKILL else "native code of the task's reference or its baselines"
    return f"{signal_name(-code)}, which may come from {cause}"


class _Host(NamedTuple):
    process: subprocess.Popen[bytes]
    control: socket.socket
    """Our end of its socket."""


class JudgeHostClient:
    """Starts judges as forks of one process, which imports their code while the engine goes on; see `judge/host`.

    A context manager: leaving it ends the process and every judge. `device_class` is that of its judges.
    """

    def __init__(self, device_class: str) -> None:
        self.device_class = device_class
        self._numbers = 0
        self._host: _Host | None = None
        self._stderr = os.memfd_create("judge-host-stderr", os.MFD_CLOEXEC)

    def __enter__(self) -> Self:
        """Start the process."""
        self._host = self._launch()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and its judges."""
        self._stop()
        os.close(self._stderr)

    async def __call__(
        self, setup: Mapping[str, Any], *, environment: Mapping[str, str]
    ) -> tuple[JudgeClient, Message]:
        """Start a judge with variables beside those of this process; see `StartJudge`."""
        return await self._asked("start", setup, environment)

    async def prepare(self, setup: Mapping[str, Any], *, environment: Mapping[str, str]) -> tuple[JudgeClient, Message]:
        """Prepare a judge for its start; see `StartJudge`."""
        return await self._asked("prepare", setup, environment)

    async def _asked(
        self, first: str, setup: Mapping[str, Any], environment: Mapping[str, str]
    ) -> tuple[JudgeClient, Message]:
        judge = await self.launch(environment=environment)
        try:
            answer = await judge.ask({"op": first, **setup})
        except BaseException:
            await judge.close(kill=True)
            raise
        return judge, answer

    async def launch(
        self, *, limit_s: float = _ANSWER_LIMIT_S, environment: Mapping[str, str] | None = None
    ) -> JudgeClient:
        """Fork a judge, which waits for its setup; a host that has died is replaced first."""
        self._numbers += 1
        request = {"judge": self._numbers, "environment": dict(environment or {})}
        stderr = os.memfd_create("judge-stderr")
        ours, theirs = socket.socketpair()
        ending, status = os.pipe()
        with theirs:
            try:
                self._send(request, [theirs.fileno(), stderr, status])
            except BaseException:
                ours.close()
                os.close(stderr)
                os.close(ending)
                raise
            finally:
                os.close(status)
        process = _JudgeProcess(self, self._numbers, ending)
        try:
            connection = await asyncio.open_connection(sock=ours)
        except BaseException:
            process.kill()
            ours.close()
            os.close(stderr)
            raise
        return JudgeClient(process, connection, stderr=stderr, limit_s=limit_s)

    def kill(self, number: int) -> None:
        """End a judge unless it has ended; without the host there is none."""
        if self._host is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._host.control.send(json.dumps({"kill": number}).encode())

    def words(self) -> str:
        """Return the end of what the host wrote."""
        return _end_of(self._stderr)

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        message = json.dumps(request).encode()
        if self._host is not None and self._host.process.poll() is None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._host.control, [message], list(descriptors))
                return
        self._stop()
        self._host = self._launch()
        socket.send_fds(self._host.control, [message], list(descriptors))

    def _launch(self) -> "_Host":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = (str(theirs.fileno()), str(os.getpid()), self.device_class)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "evokernel.evaluate.judge.host", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt at the terminal is the engine's to handle
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(_python_path()),
                    **(NO_SMALL_CACHE if self.device_class == "cpu" else {}),
                },
            )
        return _Host(process, ours)

    def _stop(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.control.close()
            host.process.kill()  # it may still be importing; judges that are left die with it
            host.process.wait()


class JudgeHosts(contextlib.ExitStack):
    """Hosts of one command, each started when a judge of its device class is first needed; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, JudgeHostClient] = {}

    def of(self, device_class: str) -> JudgeHostClient:
        """Return the host of a device class."""
        if device_class not in self._hosts:
            self._hosts[device_class] = self.enter_context(JudgeHostClient(device_class))
        return self._hosts[device_class]


class _JudgeProcess:
    """One judge that a host forked; `ending` is the pipe on which the host says how it ended."""

    def __init__(self, host: JudgeHostClient, number: int, ending: int) -> None:
        self.host = host
        self._number = number
        self._ending = ending
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(ending, self._read)

    @property
    def ended(self) -> bool:
        return self._code.done()

    async def wait(self) -> int:
        """Wait for its end and return its exit code; after a signal, the signal's negative number."""
        return await asyncio.shield(self._code)

    def kill(self) -> None:
        """End it now."""
        if not self.ended:
            self.host.kill(self._number)

    def _read(self) -> None:
        text = os.read(self._ending, 16)
        self._loop.remove_reader(self._ending)
        os.close(self._ending)
        self._code.set_result(int(text or -signal.SIGKILL))  # a judge dies with its host


def _end_of(descriptor: int) -> str:
    return os.pread(descriptor, 1 << 20, 0).decode(errors="replace")[-2000:].strip()


def _python_path() -> list[str]:
    """Return the search path under which the child finds the packages this process runs."""
    rest = os.environ.get("PYTHONPATH", "")
    return [_PACKAGES, *(rest.split(os.pathsep) if rest else [])]

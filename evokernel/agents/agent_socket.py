"""Unix socket on which one agent is served; its connections end with it."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from pathlib import Path


class AgentSocket(ABC):
    """A server on a unix socket.

    Args:
        most: connections at a time; a further one is turned away.
        longest_bytes: the longest piece that may be read at once, in bytes.
    """

    def __init__(self, *, most: int, longest_bytes: int) -> None:
        self._most, self._longest_bytes = most, longest_bytes
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen at a path."""
        self._server = await asyncio.start_unix_server(self._accept, path, limit=self._longest_bytes)

    async def close(self) -> None:
        """Listen no more, and end every connection with what it waits for."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; one that breaks off may raise."""

    @abstractmethod
    async def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        """Say that there are too many connections, where the protocol has words for it."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
                if len(self._open) > self._most:
                    await self._turn_away(writer)
                else:
                    await self._serve(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

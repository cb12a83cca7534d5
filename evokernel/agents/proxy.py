"""CONNECT proxy of one agent: the only way out of its sandbox, to the hosts that its entry names and to no other."""

import asyncio
import re
from collections.abc import Iterable

from evokernel.agents.agent_socket import AgentSocket

HTTPS_PORT = 443
MOST_CONNECTIONS = 64
MOST_BYTES = 1 << 30
MOST_REFUSED = 20
_HEAD_BYTES = 8192
_BLOCK_BYTES = 65536
_PATIENCE_S = 20.0
_IDLE_S = 600.0
_CONNECT = re.compile(rb"CONNECT ([A-Za-z0-9.-]{1,253}):([0-9]{1,5}) HTTP/1\.[01]\r\n")
_NAMED = re.compile(rb"[A-Z]{1,10} ([!-~]{1,300})")


def allowed_host(text: str) -> tuple[str, int]:
    """Return a host and its port, 443 where none is given."""
    host, _, port = text.partition(":")
    return host.lower(), int(port or HTTPS_PORT)


class AgentProxy(AgentSocket):
    """Serves HTTP's CONNECT on a unix socket; plain HTTP and every other host are refused.

    The name in the CONNECT decides, and our resolver says where it leads. What is said inside a tunnel is encrypted
    and not read.

    Args:
        hosts: HOST or HOST:PORT, compared exactly.
        most_bytes: the most that all connections may carry together, in both directions.
    """

    def __init__(self, hosts: Iterable[str], *, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(most=MOST_CONNECTIONS, longest_bytes=_HEAD_BYTES)
        self.refused: dict[str, int] = {}
        """How often each target was refused, by host and port; at most `MOST_REFUSED` of them."""
        self.carried_bytes = 0
        """Bytes that went through, in both directions."""
        self._allowed = frozenset(map(allowed_host, hosts))
        self._most_bytes = most_bytes

    async def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        await _say(writer, "503 Too Many Connections")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        asked = _CONNECT.match(head)
        target = None if asked is None else (asked[1].decode().lower(), int(asked[2]))
        if target is None or target not in self._allowed:
            self._refuse(head if target is None else f"{target[0]}:{target[1]}")
            await _say(writer, "405 Only CONNECT" if target is None else "403 Not Among agent_hosts")
            return
        try:
            async with asyncio.timeout(_PATIENCE_S):
                far_reader, far_writer = await asyncio.open_connection(*target)
        except (OSError, TimeoutError):
            await _say(writer, "502 Not Reached")
            return
        try:
            await _say(writer, "200 Connected")
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer))
                group.create_task(self._pump(far_reader, writer))
        except* (OSError, TimeoutError):
            pass
        finally:
            far_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(_IDLE_S):
                block = await reader.read(_BLOCK_BYTES)
            self.carried_bytes += len(block)
            if self.carried_bytes > self._most_bytes:
                raise ConnectionAbortedError("the limit on bytes is reached")
            if not block:
                writer.write_eof()
                return
            writer.write(block)
            await writer.drain()

    def _refuse(self, asked: str | bytes) -> None:
        if isinstance(asked, bytes):
            named = _NAMED.match(asked)
            asked = f"{named[1].decode()} (not by CONNECT)" if named else "no request of HTTP"
        if asked in self.refused or len(self.refused) < MOST_REFUSED:
            self.refused[asked] = self.refused.get(asked, 0) + 1


async def _say(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
    await writer.drain()

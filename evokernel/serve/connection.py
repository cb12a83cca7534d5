"""One connection, with limits on time, size and number."""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from evokernel.serve.answers import refusal
from evokernel.serve.application import ServerLimits

SEND_BYTES = 262_144


class Connection(H11Protocol):
    """A connection of uvicorn that aborts where a client sends too much or waits too long."""

    def __init__(
        self, limits: ServerLimits, *, refuse: Callable[[HTTPStatus], Response] = refusal, **uvicorn: Any
    ) -> None:
        super().__init__(**uvicorn)
        self._limits = limits
        self._refusal = refuse
        self._head_bytes = 0
        self._hang_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it where there are too many."""
        super().connection_made(transport)
        found: socket.socket = transport.get_extra_info("socket")
        # Keep the unread data of a slow client small, and notice a client that has vanished.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self._limits.send_s))
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._limits.connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._abort_after(self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._abort_after(None)

    def data_received(self, data: bytes) -> None:
        """Read until there is a whole request."""
        if self.cycle is None:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        super().data_received(data)
        if self.cycle is not None and self._head_bytes:
            self._head_bytes = 0
            self._abort_after(None)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed."""
        self._refuse(HTTPStatus.BAD_REQUEST)

    def pause_writing(self) -> None:
        """Start the clock while the client does not read."""
        super().pause_writing()
        self._abort_after(self._limits.send_s)

    def resume_writing(self) -> None:
        """Stop the clock when the client reads again."""
        super().resume_writing()
        self._abort_after(None)

    def _abort_after(self, seconds: float | None) -> None:
        if self._hang_up is not None:
            self._hang_up.cancel()
        self._hang_up = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def _refuse(self, code: HTTPStatus) -> None:
        if self.cycle is None:
            answer = self._refusal(code)
            lines = [f"HTTP/1.1 {code.value} {code.phrase}".encode(), *map(b": ".join, answer.raw_headers), b"", b""]
            self.transport.write(b"\r\n".join(lines) + bytes(answer.body))
        self.transport.close()

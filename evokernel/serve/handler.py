"""One request: who asks, what for, and the answer. Whatever is wrong with it is answered in one line of plain text."""

import gzip
import io
import json
import re
import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from evokernel.serve.access import bearer, cookie_value
from evokernel.serve.site import EventStream, Redirect, ResponseBody

if TYPE_CHECKING:
    from evokernel.serve.server import Server

PIECE_BYTES, SEND_BYTES = 65_536, 262_144
METHODS = ("GET", "HEAD")
# The parser of the standard library would read // as /: an address has one spelling here.
_LINE = re.compile(rb"[!-~]+ (?!//)[!-~]+ HTTP/1\.[0-9]\r?\n")
_TOKEN_QUERY = re.compile(r"token=([A-Za-z0-9_.~-]{1,200})")
_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[0-9.]+\s*)?(?:,|$)", re.IGNORECASE)
_WORDS = {
    HTTPStatus.UNAUTHORIZED: "open the address that `evokernel serve` has printed: it has the token in it",
    HTTPStatus.NOT_FOUND: "there is nothing here, or nothing yet",
    HTTPStatus.MISDIRECTED_REQUEST: "this server is not known by that name; use the address that it has printed",
    HTTPStatus.METHOD_NOT_ALLOWED: "this server only answers GET and HEAD",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many pages are open",
}
_ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


class _TooLong(Exception):
    """A request has more in its head than we read."""


class _Head:
    """The head of a request, of which no more is read than a limit."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line. Raises `_TooLong` where it would go beyond the limit."""
        line: bytes = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise _TooLong
        return line


class RequestHandler(BaseHTTPRequestHandler):
    """Answers the one request of a connection; the standard library parses it."""

    server: "Server"

    def setup(self) -> None:
        """Take the connection, with a limit to how long it may keep us waiting."""
        self.request.settimeout(self.server.limits.head_s)
        # What is under way to one that does not read stays small.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        super().setup()

    def handle(self) -> None:
        """Read the request and answer it."""
        try:
            head = _Head(self.rfile, self.server.limits.head_bytes)
            self.raw_requestline = head.readline()
            self.rfile = head  # type: ignore[assignment]
            self.command = ""
            if not self.raw_requestline:
                return
            if not _LINE.fullmatch(self.raw_requestline):
                self._refuse(HTTPStatus.BAD_REQUEST)
                return
            if not self.parse_request():
                return
            self.server.request_is_in(self.connection)
            self.connection.settimeout(self.server.limits.send_s)
            self._answer()
        except _TooLong:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except OSError:
            return  # the other side has gone, or takes nothing any more

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what cannot be parsed; nothing of the request is said back."""
        self._refuse(HTTPStatus(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: an address may have the token in it."""

    def _answer(self) -> None:
        path, sign, query = self.path.partition("?")
        if not self.server.access.addresses_us(self.headers.get_all("Host", [])):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.command not in METHODS:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": ", ".join(METHODS)})
        elif (token := _TOKEN_QUERY.fullmatch(query)) is not None:
            self._let_in(path, token[1])
        elif not self._is_known():
            self._refuse(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        elif sign:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._give(path)

    def _is_known(self) -> bool:
        server, headers = self.server, self.headers
        by_cookie = cookie_value(headers.get_all("Cookie", []), server.cookie)
        return server.access.admits(by_cookie) or server.access.admits(bearer(headers.get_all("Authorization", [])))

    def _let_in(self, path: str, token: str) -> None:
        """Put the token into a cookie and out of the address, which is seen, kept and sent around."""
        if not self.server.access.admits(token):
            self._refuse(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
            return
        answer = self.server.site.answer(path)
        if answer is None or isinstance(answer, EventStream):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        more = {"Location": path.rpartition("/")[2] or "."}
        if self.server.access.token:
            more["Set-Cookie"] = f"{self.server.cookie}={token}; Path=/; HttpOnly; SameSite=Lax"
        self._head(HTTPStatus.SEE_OTHER, {**more, "Content-Length": "0"})

    def _give(self, path: str) -> None:
        answer = self.server.site.answer(path)
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif isinstance(answer, Redirect):
            self._head(HTTPStatus.SEE_OTHER, {"Location": answer.to, "Content-Length": "0"})
        elif isinstance(answer, ResponseBody):
            self._body(answer)
        elif self.command == "HEAD":
            self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
        elif self.server.streams.acquire(blocking=False):
            try:
                self._events(answer)
            finally:
                self.server.streams.release()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"})

    def _body(self, body: ResponseBody) -> None:
        packed = any(map(_GZIP.search, self.headers.get_all("Accept-Encoding", [])))
        more = {"Content-Type": body.kind, "Vary": "Accept-Encoding", "Content-Security-Policy": _framed(body.policy)}
        if body.version:
            more["X-Version"] = body.version
        if packed:
            more |= {"Content-Encoding": "gzip", "Content-Length": str(len(body.packed))}
        self._head(HTTPStatus.OK, more)
        if self.command == "HEAD":
            return
        for piece in _pieces(body.packed) if packed else _unpacked(body.packed):
            self.connection.sendall(piece)

    def _events(self, events: EventStream) -> None:
        """Say what is new as long as the other side listens, and now and then that we are still here."""
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self.server.limits.send_s))
        self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        site, said = self.server.site, ""
        with site.watched(events.feeds):
            while not self.server.closing:
                news = _news(events)
                if news != said:
                    self.connection.sendall(f"retry: 2000\ndata: {news}\n\n".encode())
                    said = news
                if not self._wait_for_news(events, said):
                    self.connection.sendall(b": still here\n\n")

    def _wait_for_news(self, events: EventStream, said: str) -> bool:
        def new() -> bool:
            return self.server.closing or _news(events) != said

        with self.server.site.changed:
            return self.server.site.changed.wait_for(new, self.server.limits.keepalive_s)

    def _refuse(self, code: HTTPStatus, more: dict[str, str] | None = None) -> None:
        text = (_WORDS.get(code, code.phrase.lower()) + "\n").encode()
        head = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(text)), **(more or {})}
        self._head(code, head)
        if self.command != "HEAD":
            self.connection.sendall(text)

    def _head(self, code: HTTPStatus, more: dict[str, str]) -> None:
        policy = {"Content-Security-Policy": _framed("default-src 'none'")}
        lines = [f"{name}: {value}" for name, value in {**_ALWAYS, **policy, **more}.items()]
        self.connection.sendall("\r\n".join([f"HTTP/1.0 {code.value} {code.phrase}", *lines, "", ""]).encode("latin-1"))


def _news(events: EventStream) -> str:
    return json.dumps(events.look(), separators=(",", ":"))


def _framed(policy: str) -> str:
    return f"{policy}; frame-ancestors 'none'"


def _pieces(packed: bytes) -> Iterator[bytes]:
    for start in range(0, len(packed), PIECE_BYTES):
        yield packed[start : start + PIECE_BYTES]


def _unpacked(packed: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece

"""A server in this process, and a client that sends what it is told, byte for byte."""

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evokernel.serve.application import ServerLimits
from evokernel.serve.feed import PollingLimits
from evokernel.serve.server import DEFAULTS, Server
from evokernel.serve.site import ServedStores

SAFETY_NET_S = 300.0
QUICK = PollingLimits(poll_s=0.02, least_s=0.02, share=0.5)
"""For tests that wait for what a feed says."""


@contextlib.contextmanager
def serving(*paths: Path, limits: ServerLimits = DEFAULTS, pace: PollingLimits = QUICK) -> Iterator[Server]:
    """Serve stores on a free port of the loopback while the block runs."""
    with ServedStores(paths, pace=pace) as site, Server(site, limits=limits) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def wait_until(true: Callable[[], Any]) -> Any:
    """Wait until something is so, and return it."""
    until = time.monotonic() + SAFETY_NET_S
    while not (found := true()):
        assert time.monotonic() < until, "this did not come about"
        time.sleep(0.01)
    return found


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the status (0 for nothing), headers by lower-case name, the body as it reads."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def connect(port: int) -> socket.socket:
    """Return a connection to a server."""
    return socket.create_connection(("127.0.0.1", port), timeout=SAFETY_NET_S)


def exchange(port: int, request: bytes) -> Reply:
    """Send bytes and return what comes back until the server hangs up."""
    with connect(port) as connection:
        with contextlib.suppress(OSError):  # it may have hung up before all is said
            connection.sendall(request)
        return reply_of(everything(connection))


def everything(connection: socket.socket) -> bytes:
    """Return all that comes until the other side hangs up."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            got += more
    return got


def reply_of(got: bytes) -> Reply:
    """Read a reply."""
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(chunks(body))
    if headers.get("content-encoding") == "gzip" and body:
        body = gzip.decompress(body)
    return Reply(int(lines[0].split()[1]) if lines[0] else 0, headers, body)


def chunks(body: bytes) -> Iterator[bytes]:
    """Read a body that says before each piece how long it is."""
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


def ask(server: Server, target: str = "/", *, method: str = "GET", host: str | None = None, **headers: str) -> Reply:
    """Ask for something as a browser does; `headers` are named with _ for -."""
    named = f"127.0.0.1:{server.port}" if host is None else host
    lines = [f"{method} {target} HTTP/1.1", f"Host: {named}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return exchange(server.port, "\r\n".join([*lines, "", ""]).encode())


class Listener:
    """Hears the events of a stream; `newest` is what the last one said."""

    def __init__(self, port: int, target: str = "/0/events") -> None:
        self._connection = connect(port)
        self._connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        self._file = self._connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass
        self.newest: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()
        self._connection.close()

    def until(self, true: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Return the first event that something is true of."""
        until = time.monotonic() + SAFETY_NET_S
        while not (self.newest and true(self.newest)):
            assert time.monotonic() < until, f"this did not come about: {self.newest}"
            line = self._file.readline()
            assert line, f"the stream has ended: {self.newest}"
            if line.startswith(b"data: "):
                self.newest = json.loads(line[6:])
        return self.newest

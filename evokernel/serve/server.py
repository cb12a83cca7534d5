"""The web server: it answers GET and HEAD, one request a connection, and never opens a file."""

import logging
import socket
import threading
import time
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from evokernel.errors import ConfigError
from evokernel.serve.access import AccessPolicy, access_for
from evokernel.serve.handler import RequestHandler
from evokernel.serve.site import ServedStores

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much of this server others may take up.

    `head_s` is the time for a whole request, `send_s` that for each piece of an answer, `keepalive_s` the longest
    silence of a stream of events. `streams` of the `connections` may be such streams.
    """

    connections: int = 64
    streams: int = 48
    head_bytes: int = 16_384
    head_s: float = 10.0
    send_s: float = 20.0
    keepalive_s: float = 15.0


DEFAULTS = ServerLimits()
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Server(ThreadingHTTPServer):
    """Listens as soon as it is made. `url` is where a browser finds it, with the token where one is asked for."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(
        self, site: ServedStores, *, host: str = "127.0.0.1", port: int = 0, limits: ServerLimits = DEFAULTS
    ) -> None:
        """Listen.

        Raises:
            ConfigError: the host or the port cannot be used, or the token of the environment can be guessed.
        """
        self.site = site
        self.limits = limits
        self.streams = threading.BoundedSemaphore(limits.streams)
        self.closing = False
        self._deadlines: dict[socket.socket, float] = {}  # of each connection; infinite once its request is in
        self._guard = threading.Lock()
        try:
            self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.access: AccessPolicy = access_for(host, str(address[0]))
            super().__init__(address, RequestHandler)  # type: ignore[arg-type]
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"cannot listen at {host} port {port}: {reason}; name another with --host, --port"
            ) from error
        self.cookie = f"evokernel-{self.server_port}"  # browsers send cookies to all ports of a host
        self.url = self._url(host)

    def server_bind(self) -> None:
        """Bind, without asking the network what this machine is called."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def _url(self, host: str) -> str:
        named = socket.gethostname() if self.server_name in ("0.0.0.0", "::") else host
        named = f"[{named}]" if ":" in named else named
        return f"http://{named}:{self.server_port}/" + (f"?token={self.access.token}" if self.access.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread of its own, or turn it away where there are too many."""
        with self._guard:
            room = len(self._deadlines) < self.limits.connections
            if room:
                self._deadlines[request] = time.monotonic() + self.limits.head_s
        if room:
            super().process_request(request, client_address)
            return
        try:
            request.settimeout(0.0)
            request.send(_BUSY)
        except OSError:
            pass
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        with self._guard:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._guard:
            return len(self._deadlines)

    def request_is_in(self, request: Any) -> None:
        """Note that a connection has said what it wants."""
        with self._guard:
            if request in self._deadlines:
                self._deadlines[request] = float("inf")

    def service_actions(self) -> None:
        """Hang up on those who take too long to say what they want; called about twice a second."""
        now = time.monotonic()
        with self._guard:
            late = [request for request, deadline in self._deadlines.items() if deadline < now]
            for request in late:
                try:
                    request.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
                except OSError:
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what is wrong in the log: a client that goes away is nothing, all else is a fault of ours."""
        logger.debug("a connection failed", exc_info=True)

    def server_close(self) -> None:
        """Stop listening and end all streams."""
        self.closing = True
        with self.site.changed:
            self.site.changed.notify_all()
        super().server_close()

"""The web server: GET and HEAD, one request a connection, no file access."""

import logging
import socket
from functools import partial
from typing import Self

import uvicorn

from evokernel.errors import ConfigError
from evokernel.serve.access import AccessPolicy, access_for
from evokernel.serve.application import Application, ServerLimits
from evokernel.serve.connection import Connection
from evokernel.serve.site import ServedStores

DEFAULTS = ServerLimits()
_BACKLOG = 32
_END_S = 2


class Server:
    """A server that listens once it is made. `url` is its address for a browser, with the token if one is needed."""

    def __init__(
        self, site: ServedStores, *, host: str = "127.0.0.1", port: int = 0, limits: ServerLimits = DEFAULTS
    ) -> None:
        """Listen.

        Raises:
            ConfigError: the host, the port or the token of the environment cannot be used.
        """
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.access: AccessPolicy = access_for(host, str(address[0]))
            self._socket = socket.create_server(address, family=family, backlog=_BACKLOG)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"cannot listen at {host} port {port}: {reason}; name another with --host, --port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.url = self._url(host)
        self.site = site
        self.application = Application(
            site,
            self.access,
            cookie=f"evokernel-{self.port}",  # browsers send cookies to all ports of a host
            limits=limits,
            ending=lambda: self._uvicorn.should_exit,
        )
        self._uvicorn = uvicorn.Server(_config(self.application, limits))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._socket.close()

    def _url(self, host: str) -> str:
        anywhere = self._socket.getsockname()[0] in ("0.0.0.0", "::")
        named = socket.gethostname() if anywhere else host
        named = f"[{named}]" if ":" in named else named
        return f"http://{named}:{self.port}/" + (f"?token={self.access.token}" if self.access.token else "")

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._uvicorn.server_state.connections)

    def serve_forever(self) -> None:
        """Answer until `shutdown`, or until a signal, which is raised again in the end."""
        self._uvicorn.run(sockets=[self._socket])

    def shutdown(self) -> None:
        """Ask the server to end all streams and stop listening; from any thread."""
        self._uvicorn.should_exit = True


def _config(application: Application, limits: ServerLimits) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=partial(Connection, limits),  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level=logging.CRITICAL,  # a URL may hold the token, and a client that goes away is no error
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_END_S,
    )

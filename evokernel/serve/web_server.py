"""A listening HTTP server for an ASGI application, with limits on its clients."""

import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Self

import uvicorn
from starlette.responses import Response

from evokernel.errors import ConfigError
from evokernel.serve.access import TOKEN_VARIABLE, AccessPolicy, access_for
from evokernel.serve.answers import refusal
from evokernel.serve.application import ServerLimits
from evokernel.serve.connection import Connection

_BACKLOG = 32
_END_S = 2


class WebServer:
    """A socket that listens once it is made, and the server that answers there; `url` is its address."""

    def __init__(
        self, *, host: str, port: int, environment: Mapping[str, str] = os.environ, variable: str = TOKEN_VARIABLE
    ) -> None:
        """Listen. Raises `ConfigError` if the host, the port or the token in `environment` cannot be used."""
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.access: AccessPolicy = access_for(host, str(address[0]), environment=environment, variable=variable)
            self._socket = socket.create_server(address, family=family, backlog=_BACKLOG)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"cannot listen at {host} port {port}: {reason}; name another with --host, --port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        anywhere = self._socket.getsockname()[0] in ("0.0.0.0", "::")
        named = socket.gethostname() if anywhere else host
        self.url = f"http://{f'[{named}]' if ':' in named else named}:{self.port}/"

    def answer_with(
        self, application: Any, *, limits: ServerLimits, refuse: Callable[[HTTPStatus], Response] = refusal
    ) -> None:
        """Set the ASGI application, the limits of its clients, and the answer where one breaks them."""
        self._uvicorn = uvicorn.Server(_config(application, partial(Connection, limits, refuse=refuse)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._socket.close()

    def ending(self) -> bool:
        """Say whether the server is about to end."""
        return self._uvicorn.should_exit

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


def _config(application: Any, connection: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=connection,
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

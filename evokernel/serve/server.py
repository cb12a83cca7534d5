"""The web server of runs: GET and HEAD, one request a connection, no file access."""

from evokernel.serve.application import Application, ServerLimits
from evokernel.serve.site import ServedStores
from evokernel.serve.web_server import WebServer

DEFAULTS = ServerLimits()


class Server(WebServer):
    """A server that listens once it is made. `url` is its address for a browser, with the token if one is needed."""

    def __init__(
        self, site: ServedStores, *, host: str = "127.0.0.1", port: int = 0, limits: ServerLimits = DEFAULTS
    ) -> None:
        """Listen. Raises `ConfigError` if the host, the port or the token of the environment cannot be used."""
        super().__init__(host=host, port=port)
        self.url += f"?token={self.access.token}" if self.access.token else ""
        self.site = site
        self.application = Application(
            site,
            self.access,
            cookie=f"evokernel-{self.port}",  # browsers send cookies to all ports of a host
            limits=limits,
            ending=self.ending,
        )
        self.answer_with(self.application, limits=limits)

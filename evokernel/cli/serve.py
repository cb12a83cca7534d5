"""`evokernel serve`: the report as a page that follows its runs."""

import importlib.util
import signal
import webbrowser
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from archive.store import Store
from evokernel.cli.display.text import DIM, STRONG, WARN, clean, stderr, stdout
from evokernel.cli.locate import store_path
from evokernel.cli.options import host_option, port_option, stores_argument
from evokernel.errors import ConfigError, install


@click.command(
    epilog="Ctrl-C ends it; the search goes on. Beyond loopback others need the token in the address that is printed: "
    "it is made at random, unless EVOKERNEL_SERVE_TOKEN gives one. The connection is not encrypted: over a network "
    "that others can read, leave --host out and use `ssh -L PORT:127.0.0.1:PORT`."
)
@stores_argument
@host_option
@port_option
@click.option("--open", "show", is_flag=True, help="Show it in the browser.")
def command(stores: tuple[Path, ...], host: str, port: int, show: bool) -> None:
    """Show runs in a browser, and follow them: the page of `report` with what comes in, no reload needed.

    A run may be at work here or in another process, be killed and go on, or begin later. Nothing is ever written.
    Several stores get an index.
    """
    need_web_server()
    from evokernel.serve.server import Server
    from evokernel.serve.site import ServedStores

    paths = list(dict.fromkeys(map(store_path, stores or (None,))))
    for path in paths:
        if path.exists():
            Store.open(path, write=False).close()  # what is no store would be waited for in vain
    with ServedStores(paths) as site, Server(site, host=host, port=port) as server:
        let_sigterm_interrupt()
        console = stdout()
        console.print(Text(clean(server.url), style=STRONG), soft_wrap=True)
        for path in paths:
            console.print(
                Text(f"  {clean(str(path))}{'' if path.exists() else ', when it is there'}", style=DIM), soft_wrap=True
            )
        if server.access.numbers:
            stderr().print(Text("not encrypted: who can read the network sees the token and the runs", style=WARN))
        if show and not webbrowser.open(server.url):
            stderr().print(Text("no browser was found here; open the address in one", style=WARN))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.print(Text("ended", style=DIM))


def need_web_server() -> None:
    """Raise `ConfigError` where what serves pages is not installed."""
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn"))):
        raise ConfigError(f"this command needs starlette and uvicorn, which are not installed: {install('serve')}")


def let_sigterm_interrupt() -> None:
    """Let SIGTERM end a command as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)

"""`evokernel mcp`: a run as tools for agents."""

import importlib.util
from pathlib import Path

import click

from evokernel.cli.locate import store_argument, store_path
from evokernel.errors import ConfigError


@click.command(
    epilog="For a client's configuration: command evokernel, arguments mcp and the absolute path of the store. What "
    "agents propose is judged by `evokernel evolve`, which may run beside it."
)
@store_argument
def command(store: Path | None) -> None:
    """Serve a run to agents over stdin and stdout (Model Context Protocol).

    Tools: the task, its elites, lineage, sources, proposing a kernel, and its verdict.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            "the server is built with the package mcp, which is not installed: pip install 'mcp>=2', or the extra mcp "
            "of evokernel-search"
        )
    from evokernel.cli.ask import config_of
    from evokernel.mcp.server import make_server

    place = store or store_path(None)
    make_server(store_path(place), config_of(place)).run("stdio")

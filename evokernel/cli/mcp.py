"""`evokernel mcp`: a run as tools for agents."""

import importlib.util
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from archive.store import Store
from evokernel.cli.locate import store_path
from evokernel.cli.options import store_argument
from evokernel.errors import ConfigError, install


@click.command(
    epilog="For a client's configuration: command evokernel, arguments mcp and the absolute path of the store. What "
    "agents propose is judged by `evokernel evolve`, which may run beside it."
)
@store_argument
@click.option("--print-config", is_flag=True, help="Print the lines that clients need to find this server, and end.")
def command(store: Path | None, print_config: bool) -> None:
    """Serve a run to agents over stdin and stdout (Model Context Protocol).

    Tools: the task, its elites, lineage, sources, profiles, hints, evaluating or proposing a kernel, and its verdict.
    """
    place = store or store_path(None)
    if print_config:
        with Store.open(store_path(place), write=False):
            click.echo(client_lines([sys.executable, "-m", "evokernel", "mcp", str(place.absolute())]))
        return
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(f"the server is built with the package mcp, which is not installed: {install('mcp')}")
    from evokernel.cli.ask import config_of
    from evokernel.mcp.server import make_server

    make_server(store_path(place), config_of(place)).run("stdio")


def client_lines(argv: Sequence[str]) -> str:
    """Return the configuration of the usual clients for a server that a command starts."""
    program, *arguments = argv
    entry = {"command": program, "args": arguments}
    parts = {
        "Claude Code, in a shell": shlex.join(["claude", "mcp", "add", "evokernel", "--", *argv]),
        "Codex, in ~/.codex/config.toml": (
            f"[mcp_servers.evokernel]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}"
        ),
        "VS Code, in .vscode/mcp.json": json.dumps({"servers": {"evokernel": {"type": "stdio", **entry}}}, indent=2),
        "Claude Desktop, Cursor, Gemini CLI and others with mcpServers": json.dumps(
            {"mcpServers": {"evokernel": entry}}, indent=2
        ),
    }
    return "\n\n".join(f"# {client}\n{lines}" for client, lines in parts.items())

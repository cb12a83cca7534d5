"""`evokernel ban`: a kernel that shall have no more children."""

from pathlib import Path

import click

from evokernel.cli.inbox import correct_kernel, hand_in
from evokernel.cli.locate import store_path
from evokernel.cli.options import takes_store


@click.command()
@takes_store(name="ID")
def command(store: Path | None, name: str) -> None:
    """Bar a kernel from ever being a parent again, or the best kernel.

    ID is an id, the beginning of one, `best` or `seed`. What was measured of it stays. STORE may be in use.
    """
    path = store_path(store)
    wanted = correct_kernel(path, name)
    then = hand_in(path, "ban", {"candidate": wanted})
    click.echo(f"{wanted} banned: {then}")

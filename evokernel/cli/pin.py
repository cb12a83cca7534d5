"""`evokernel pin`: a kernel that a person wants to see more children of."""

from pathlib import Path

import click

from evokernel.cli.inbox import correct_kernel, hand_in
from evokernel.cli.locate import store_path
from evokernel.cli.options import takes_store


@click.command()
@takes_store(name="ID")
@click.option("--undo", is_flag=True, help="Let it be chosen like any other again.")
def command(store: Path | None, name: str, undo: bool) -> None:
    """Make a kernel a parent more often than others.

    ID is an id, the beginning of one, `best` or `seed`. STORE may be in use.
    """
    path = store_path(store)
    wanted = correct_kernel(path, name)
    then = hand_in(path, "unpin" if undo else "pin", {"candidate": wanted})
    click.echo(f"{wanted} {'pinned no more' if undo else 'pinned'}: {then}")

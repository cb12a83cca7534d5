"""`evokernel fork`: a candidate and its ancestors become the beginning of a new store."""

from pathlib import Path

import click

from archive.fork import fork
from evokernel.cli.locate import candidate_id, open_store, store_path


@click.command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE|CONFIG")
@click.argument("name", metavar="ID")
@click.argument("new", type=click.Path(path_type=Path), metavar="NEW")
def command(store: Path, name: str, new: Path) -> None:
    """Copy a candidate and its ancestors, with their evaluations, into a NEW store.

    ID is an id, the beginning of one, `best` or `seed`. The old store is only read.
    """
    source = store_path(store)
    with open_store(source) as opened:
        wanted = candidate_id(opened, name)
    copied = fork(source, new, candidate=wanted)
    click.echo(f"copied {wanted} and {copied - 1} ancestors to {new}")
    click.echo(f"go on from there:  evokernel evolve CONFIG --store {new}")

"""`evokernel fork`: a new store that begins with a candidate and its ancestors."""

from pathlib import Path

import click

from archive.fork import fork
from evokernel.cli.locate import open_store, store_path
from evokernel.cli.options import takes_store
from evokernel.report.best import candidate_id
from evokernel.report.lineage import portrait


@click.command()
@takes_store(name="ID", new="NEW")
def command(store: Path | None, name: str, new: str) -> None:
    """Copy a candidate and its ancestors, with their evaluations, into a NEW store.

    ID is an id, the beginning of one, `best` or `seed`; one that failed will do, too. The old store is only read. What
    the copies have cost counts for no budget of the new one.
    """
    source = store_path(store)
    with open_store(source) as opened:
        wanted = candidate_id(opened, name)
        failure = portrait(opened, wanted).verdicts.failure
    copied = fork(source, Path(new), candidate=wanted)
    click.echo(f"copied {wanted} and {copied - 1} ancestor{'s' * (copied != 2)} to {new}")
    if failure is not None:
        click.echo(f"{wanted} is no correct kernel ({failure.status}): the search goes on from what is")
    click.echo(f"go on from there:  evokernel evolve CONFIG --store {new}")

"""`evokernel verify`: whether a store is whole."""

from pathlib import Path

import click

from evokernel.cli.display.text import clean
from evokernel.cli.locate import open_store, say_if_long
from evokernel.cli.options import store_argument

UNSOUND_EXIT = 1


@click.command(epilog="Exit codes: 0 the store is sound; 1 something is wrong with it; 2 it cannot be read.")
@store_argument
@click.pass_context
def command(ctx: click.Context, store: Path | None) -> None:
    """Look for damage, gaps and contradictions in a STORE, which is only read."""
    with open_store(store) as opened:
        say_if_long(opened, stage="looking over")
        path, found, facts = opened.database.path, opened.verify(), opened.last_seq()
    for line in found:
        click.echo(clean(line))
    if found:
        ctx.exit(UNSOUND_EXIT)
    click.echo(f"{path} is sound: {facts} facts")

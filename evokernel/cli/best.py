"""`evokernel best`: the kernel to take home, and what is proved of it."""

import json
from pathlib import Path

import click

from evokernel.cli.display.tables import best_kernel_tables, code, put
from evokernel.cli.display.text import stdout
from evokernel.cli.locate import open_store
from evokernel.cli.options import json_option, store_argument, verbose_option
from evokernel.report.best import best_kernel
from evokernel.report.documents import best_document
from evokernel.report.status import run_facts


@click.command()
@store_argument
@verbose_option
@json_option
def command(store: Path | None, verbose: bool, as_json: bool) -> None:
    """Show the best kernel, what is proved of it, and its source.

    A kernel that held on inputs the search never saw comes before any other; its numbers are those of that final
    measurement, never those that selected it.
    """
    with open_store(store) as opened:
        best, run = best_kernel(opened), run_facts(opened)
    if as_json:
        click.echo(json.dumps(best_document(best, run), indent=2))
        return
    put(stdout(), *best_kernel_tables(best, run, environment=verbose), code(best.candidate))

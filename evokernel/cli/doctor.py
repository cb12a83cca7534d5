"""`evokernel doctor`: what this machine offers, and what is missing."""

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from evokernel.cli.display.text import BAD, DIM, GOOD, WARN, clean, stdout
from evokernel.cli.locate import RUNS


@click.command(epilog="Exit codes: 0 a search can run; 1 something is missing without which none does; 2 an error.")
@click.option(
    "--runs", type=click.Path(path_type=Path), default=RUNS, show_default=True, help="Where stores are written."
)
@click.pass_context
def command(context: click.Context, runs: Path) -> None:
    """Look at everything a search needs, and say what to do about what is missing."""
    from evokernel.doctor.finding import FindingLevel
    from evokernel.doctor.machine import examine

    styles = {FindingLevel.OK: GOOD, FindingLevel.WARNING: WARN, FindingLevel.MISSING: BAD}
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(style=DIM, no_wrap=True)
    made.add_column(overflow="fold")
    missing = 0
    for finding in examine(runs):
        missing += finding.state is FindingLevel.MISSING
        text = Text(clean(finding.found))
        if finding.advice:
            text.append(
                f"\n{clean(finding.advice)}", style=DIM if finding.state is FindingLevel.OK else styles[finding.state]
            )
        made.add_row(Text(finding.state.value, style=styles[finding.state]), finding.name, text)
    stdout().print(made)
    click.echo(f"\n{missing} missing: no search can run yet" if missing else "\nready")
    context.exit(1 if missing else 0)

"""`evokernel diff`: the differences between two candidates."""

from difflib import unified_diff
from pathlib import Path

import click
from rich.text import Text

from archive.store import Store
from evokernel.cli.display.tables import measured_how
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, clean, stdout, times
from evokernel.cli.locate import open_store
from evokernel.cli.options import takes_store
from evokernel.report.best import candidate_id
from evokernel.report.lineage import portrait

CONTEXT_LINES = 3


@click.command()
@takes_store(first="A", second="B")
def command(first: str, second: str, store: Path | None) -> None:
    """Show what differs between two candidates.

    A and B are ids, beginnings of ids, `best` or `seed`.
    """
    with open_store(store) as opened:
        before, after = _side(opened, first), _side(opened, second)
    lines = unified_diff(
        before[1].splitlines(), after[1].splitlines(), before[0], after[0], n=CONTEXT_LINES, lineterm=""
    )
    console = stdout()
    shown = False
    for line in lines:
        console.print(Text(line, style=_style(line)), soft_wrap=True)
        shown = True
    if not shown:
        console.print(Text("the two sources are equal", style=DIM))


def _side(store: Store, name: str) -> tuple[str, str]:
    """Return the heading and the source of one side."""
    found = portrait(store, candidate_id(store, name))
    mode = found.verdicts.reported.key.mode.value if found.verdicts.reported else ""
    how = f"{measured_how(found.verdicts.kind)}, {mode} mode"
    speedup = f"  {times(found.speedup.value)} over the fastest baseline, {how}" if found.speedup else ""
    return f"{found.stored.candidate.id}{speedup}", clean(found.stored.candidate.source)


def _style(line: str) -> str:
    if line.startswith(("---", "+++")):
        return STRONG
    return {"+": GOOD, "-": BAD, "@": DIM}.get(line[:1], "")

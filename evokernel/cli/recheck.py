"""`evokernel recheck`: exported kernels, judged again on this machine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet, table
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, WARN, clean, interval, say, stderr, stdout, times
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.options import POSITIVE, json_option
from evokernel.records.timing import Speedup

if TYPE_CHECKING:
    from evokernel.export.recheck import Recheck

FAILED_EXIT, ERROR_EXIT = 1, 2


@click.command(
    epilog="Exit codes: 0 every kernel holds; 1 one is wrong or slower than accepted; 2 one could not be judged, or "
    "another error."
)
@click.argument(
    "exports",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="EXPORT...",
)
@click.option(
    "--accept-from",
    type=POSITIVE,
    metavar="X",
    help="The least speed-up over the fastest baseline, 1.0 or what a kernel had at its export if that was less: it is "
    "slower where its whole interval lies below.",
)
@click.option(
    "--task", default="", metavar="T", help="A built-in task or task file in place of the one that the exports name."
)
@json_option
@click.pass_context
def command(
    context: click.Context, /, *, exports: tuple[Path, ...], accept_from: float | None, task: str, as_json: bool
) -> None:
    """Judge exported kernels again, after an upgrade of driver, compiler, Triton or torch, or on another device.

    Each EXPORT is a folder that `evokernel export` wrote. Its kernels are built and measured anew, in fresh processes
    and on held-out inputs, against the baselines as they are now; then stands beside now, with what has changed. The
    task's file must be where it was, or be named.
    """
    from evokernel.evaluate.client.judge_process import JudgeHosts
    from evokernel.export.recheck import RecheckOutcome, recheck, recheck_document

    say("judging each kernel anew, in fresh processes: half a minute each, or more")
    found: list[Recheck] = []
    with JudgeHosts() as hosts, stderr().status("judging", spinner="line", refresh_per_second=2) as status:
        for folder in exports:
            status.update(f"judging {clean(str(folder))}")
            found += recheck(folder, hosts, task=task, accept_from=accept_from)
    if as_json:
        click.echo(json.dumps(recheck_document(found), indent=2))
    else:
        put(stdout(), _table(found), *map(_more, found))
    outcomes = {each.outcome for each in found}
    failed = outcomes & {RecheckOutcome.WRONG, RecheckOutcome.SLOWER}
    context.exit(FAILED_EXIT if failed else ERROR_EXIT if RecheckOutcome.NOT_JUDGED in outcomes else 0)


def _table(found: "list[Recheck]") -> WordTable:
    from evokernel.export.recheck import RecheckOutcome

    styles = {RecheckOutcome.HOLDS: GOOD, RecheckOutcome.NOT_JUDGED: WARN}
    made = table("export", "kernel", "", "then", "now", "least", right=(3, 4, 5), drop=(5,))
    for each in found:
        made.add_row(
            Text(clean(str(each.folder)), style=STRONG),
            each.module,
            Text(each.outcome.value, style=styles.get(each.outcome, BAD)),
            _speed(each.then),
            _speed(each.now),
            "-" if each.least is None else times(each.least),
        )
    return made


def _speed(speedup: Speedup | None) -> str:
    return f"{times(speedup.value)} ({interval(speedup)})" if speedup else "-"


def _more(found: "Recheck") -> WordTable | Text:
    """Return why a kernel does not hold, and what has changed since its export."""
    name = clean(f"{found.folder}, {found.module}")
    changes = "; ".join(found.changes) or ("nothing that is known" if found.evaluation else "not looked at")
    rows = {"changed": changes, "because": found.reason}
    return sheet({name: Text(found.candidate, style=DIM), **rows})

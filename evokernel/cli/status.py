"""`evokernel status`: where a run stands."""

import json
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from evokernel.cli.locate import json_option, open_store, store_argument
from evokernel.cli.tables import (
    comparison,
    contender_line,
    holdout_text,
    put,
    sandbox_text,
    sheet,
    speedup_or_dash,
    table,
    title,
    unless,
)
from evokernel.cli.text import DIM, GOOD, STRONG, WARN, duration, one_line, reason, stdout, times
from evokernel.report.documents import status_document
from evokernel.report.status import RunState, RunStatus, read_status


@click.command()
@store_argument
@json_option
def command(store: Path | None, as_json: bool) -> None:
    """Show where a run stands; it may be running."""
    with open_store(store) as opened:
        status = read_status(opened)
    if as_json:
        click.echo(json.dumps(status_document(status), indent=2))
        return
    best = status.best
    put(
        stdout(),
        _head(status),
        _facts(status),
        title(best) if best else Text("no correct kernel yet", style=DIM),
        comparison(best) if best else None,
        holdout_text(best.holdout) if best else None,
        contender_line(best) if best else None,
        _improvements(status) if status.improvements else None,
        _operators(status) if status.operators else None,
        _islands(status) if status.islands else None,
    )


def _head(status: RunStatus) -> Text:
    run = status.run
    what = f"{one_line(run.task) or 'no run yet'}"
    return Text.assemble((what, STRONG), (f"  {one_line(run.language)}  run {run.run_id or '-'}", DIM))


def _facts(status: RunStatus) -> Table:
    run, spent = status.run, status.spent
    share = f" ({status.correct / status.results:.0%} right)" if status.results else ""
    failures = [f"{number} {one_line(name)}" for name, number in status.by_status.items() if name != "ok"]
    cost = f", ${spent.cost_usd:.2f} for models" if spent.cost_usd else ""
    return sheet(
        {
            "judged": f"{status.results}{share} in {duration(spent.seconds)}{cost}",
            "failed": ", ".join(failures[:6]),
            "in flight": str(status.in_flight) if status.in_flight else "",
            "state": _state(status),
            "mode": _modes(status),
            "sandbox": sandbox_text(run.sandbox) if status.mode else "",
            "device": one_line(run.device),
            "environment": one_line(run.environment),
            "forked from": one_line(run.forked_from),
            "store": str(run.path),
        }
    )


def _modes(status: RunStatus) -> str:
    """Return how candidates are run, and how many are not run so."""
    usual, *others = status.by_mode or {"": 0}
    return "; ".join([usual, *(f"{status.by_mode[mode]} in {mode} mode" for mode in others)])


def _state(status: RunStatus) -> Text:
    if status.state is RunState.RUNNING:
        return Text("running", style=GOOD)
    if status.state is RunState.KILLED:
        return Text("killed; `evokernel evolve` goes on", style=WARN)
    return Text(one_line(status.last_stop) or status.state.value)


def _improvements(status: RunStatus) -> Table:
    made = table("last improvements", "speed-up", "operator", "why", right=(1,))
    usual = status.mode.value if status.mode else ""
    for improvement in reversed(status.improvements):
        made.add_row(
            improvement.candidate[:8],
            times(improvement.speedup) + unless(usual, improvement.mode),
            one_line(improvement.operator, width=16),
            Text(one_line(reason(improvement.operator, improvement.rationale), width=160), style=DIM),
        )
    return made


def _operators(status: RunStatus) -> Table:
    made = table("operator", "judged", "right", "led to a new best", "had nothing", "cost", right=(1, 2, 3, 4, 5))
    for row in status.operators:
        cost = f"${row.cost_usd:.2f}" if row.cost_usd else "-"
        share = f"{row.correct / row.results:.0%}" if row.results else "-"
        made.add_row(
            one_line(row.name, width=24), str(row.results), share, str(row.improvements), str(row.barren), cost
        )
    return made


def _islands(status: RunStatus) -> Table:
    made = table("island", "judged", "right", "best found there", right=(1, 2, 3))
    usual = status.mode.value if status.mode else ""
    for row in status.islands:
        share = f"{row.correct / row.results:.0%}" if row.results else "-"
        best = speedup_or_dash(row.best) + (unless(usual, row.mode) if row.best is not None else "")
        made.add_row(one_line(row.name, width=24), str(row.results), share, best)
    return made

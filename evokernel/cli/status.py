"""`evokernel status`: where a run stands."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from archive.file.lock import is_locked
from archive.follower import RunFollower
from archive.hidden_checks import StoredCheck
from archive.hints import Hint
from archive.journal import ConfigEntry
from evokernel.cli.display.recent import recent_table
from evokernel.cli.display.tables import (
    comparison,
    cost,
    count,
    effort,
    holdout_text,
    put,
    remarks,
    sandbox_text,
    sheet,
    speedup_or_dash,
    table,
    title,
    unless,
)
from evokernel.cli.display.text import DIM, GOOD, STRONG, WARN, duration, one_line, reason, stdout, times
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.locate import open_store, say_if_long
from evokernel.cli.looks import Moment, last_look, looks_file, remember_look
from evokernel.cli.options import json_option, store_argument, verbose_option
from evokernel.records.candidate import EVERYWHERE
from evokernel.records.diversity import IslandDiversity
from evokernel.records.host_activity import HostState
from evokernel.report.documents import status_document
from evokernel.report.recent import recent_events
from evokernel.report.status import RunState, RunStatus, read_status
from evokernel.report.workload_front import WorkloadFront

BROKEN = 8
"""The first kernels that hidden checks broke are shown; --json has all."""
EDITS = 6
"""The latest edits of the config are shown; --json has all."""


@click.command()
@store_argument
@click.option(
    "--since",
    type=Moment(),
    metavar="WHEN",
    help="Begin with what happened since then: 8h, 22:00, 2026-11-24. Default: since you last looked.",
)
@verbose_option
@json_option
def command(store: Path | None, since: float | None, verbose: bool, as_json: bool) -> None:
    """Show where a run stands; it may be running."""
    looks = looks_file()
    with open_store(store) as opened:
        say_if_long(opened)
        follower = RunFollower(opened)
        status = read_status(opened, follower)
        known = last_look(status.run.run_id, looks) if since is None and not as_json else since
        begun = as_json or status.state is not RunState.NEW
        recent = recent_events(opened, known, follower) if known is not None and begun else None
    if as_json:
        click.echo(json.dumps(status_document(status, recent), indent=2))
        return
    if status.run.run_id:
        remember_look(status.run.run_id, looks)
    best = status.best
    put(
        stdout(),
        _head(status),
        recent_table(recent, status) if recent else None,
        _facts(status, environment=verbose),
        title(best) if best else Text("no correct kernel yet", style=DIM),
        *(remarks(best, status.run) if best else ()),
        comparison(best) if best else None,
        holdout_text(best.holdout) if best else None,
        _improvements(status) if status.improvements else None,
        _operators(status) if status.operators else None,
        _models(status) if status.models else None,
        _pairs(status) if status.pairs else None,
        _islands(status) if status.islands else None,
        _hosts(status) if status.hosts else None,
    )


def _head(status: RunStatus) -> Text:
    run = status.run
    about = f"  {one_line(run.language)}" * bool(run.language) + f"  run {run.run_id}" * bool(run.run_id)
    return Text.assemble((one_line(run.title), STRONG), (about, DIM))


def _facts(status: RunStatus, *, environment: bool) -> WordTable:
    run, spent = status.run, status.spent
    share = f" ({status.correct / status.results:.0%} right)" if status.results else ""
    failures = [f"{number} {one_line(name)}" for name, number in status.by_status.items() if name != "ok"]
    lines = (f"{one_line(hint.text, width=160)}{_for_whom(hint)}" for hint in status.hints)
    new, many = status.state is RunState.NEW, "" if status.results == 1 else "s"
    return sheet(
        {
            "judged": "" if new else f"{status.results}{share} in {duration(spent.seconds)}",
            "took along": f"{status.results} candidate{many}{share}, with what was measured" if new and share else "",
            "models": _models_line(status),
            "predicted": _predicted(status),
            "insights": str(status.insights) if status.insights else "",
            "hidden checks": _checks(status.checks),
            "hints": "\n".join(lines),
            "edited": "\n".join(_edit(edit) for edit in status.edits[-EDITS:]),
            "failed": ", ".join(failures[:6]),
            "champions": _champions(status.front) if status.front else "",
            "in flight": str(status.in_flight) if status.in_flight else "",
            "left": f"{status.left}, judged first when the run goes on" if status.left else "",
            "state": _state(status),
            "mode": _modes(status),
            "sandbox": sandbox_text(run.sandbox, full=environment) if status.mode and not new else "",
            "device": one_line(run.device),
            "environment": one_line(run.environment) if environment else "",
            "task": one_line(run.task) if run.task != run.title else "",
            "forked from": f"run {one_line(run.forked_from)}" if run.forked_from else "",
            "store": str(run.path),
        }
    )


def _checks(checks: Sequence[StoredCheck]) -> str:
    """Return how many hidden checks were added, by which operators and models, and the kernels that they broke."""
    if not checks:
        return ""
    by = Counter(f"{each.operator}{f' ({each.model})' if each.model else ''}" for each in checks)
    broke = list(dict.fromkeys(name[:8] for each in checks for name in each.broke))
    more = f" and {len(broke) - BROKEN} more" if len(broke) > BROKEN else ""
    who = ", ".join(f"{number} added by {one_line(name, width=60)}" for name, number in by.items())
    return f"{who}; they broke {', '.join(broke[:BROKEN])}{more}"


def _champions(front: WorkloadFront) -> str:
    led: dict[str, list[str]] = {}
    for each in front.champions:
        led.setdefault(each.candidate[:8], []).append(f"{one_line(each.workload, width=40)} {times(each.speedup)}")
    lines = [f"{name} on {', '.join(where)}" for name, where in led.items()]
    size = len(front.candidates)
    more = (
        f": {size} kernels on the Pareto front, none the fastest on all workloads; its hypervolume is "
        f"{min(front.hypervolume, 0.999):.1%} of what one such kernel would have"
        if size > 1
        else ""
    )
    return "\n".join((*lines, f"as measured in the search{more}"))


def _edit(edit: ConfigEntry) -> str:
    old, new = ("absent" if value is None else one_line(str(value), width=60) for value in (edit.old, edit.new))
    return f"{one_line(edit.key, width=60)}: {old} -> {new}"


def _models_line(status: RunStatus) -> str:
    spent, waiting = status.spent, sum(row.open for row in status.models)
    return effort(spent.calls, spent.tokens, spent.cost_usd, priced=status.priced) + (
        f"; {waiting} under way or lost" if waiting else ""
    )


def _predicted(status: RunStatus) -> str:
    found = status.predicted
    if found.kept_share is None:
        return ""
    of = f"{found.results} kernel{'' if found.results == 1 else 's'}"
    return f"{found.kept_share:.0%} of the gain that models predicted of {of} was measured"


def _for_whom(hint: Hint) -> str:
    return "" if hint.island == EVERYWHERE else f" (island {one_line(hint.island, width=24)})"


def _modes(status: RunStatus) -> str:
    """Return how candidates are run, and how many are not run so."""
    usual, *others = status.by_mode or {"": 0}
    return "; ".join([usual, *(f"{status.by_mode[mode]} in {mode} mode" for mode in others)])


def _state(status: RunStatus) -> Text:
    if status.state is RunState.RUNNING:
        return Text("running", style=GOOD)
    if status.state is RunState.KILLED:
        when = "" if status.results else " before anything was judged"
        return Text(f"killed{when}; `evokernel evolve` goes on", style=WARN)
    if status.state is RunState.NEW:
        return _not_begun(status)
    return Text(one_line(status.last_stop) or status.state.value)


def _not_begun(status: RunStatus) -> Text:
    """Return why a store has no session: its engine is at the admission, or was killed there, or it is a new fork."""
    if is_locked(status.run.path):
        return Text("starting: admission of the task, device and baselines", style=GOOD)
    if status.run.forked_from:
        return Text(f"not begun; `evokernel evolve CONFIG --store {status.run.path}` begins it")
    return Text("killed before anything was judged; the same `evokernel evolve` command goes on", style=WARN)


def _improvements(status: RunStatus) -> WordTable:
    made = table("last improvements\nin the search", "speed-up", "at least", "operator", "why", right=(1, 2), drop=(2,))
    usual = status.mode.value if status.mode else ""
    for improvement in reversed(status.improvements):
        made.add_row(
            improvement.candidate[:8],
            times(improvement.speedup) + unless(usual, improvement.mode),
            times(improvement.low),
            one_line(improvement.operator, width=16),
            Text(one_line(reason(improvement.operator, improvement.rationale), width=160), style=DIM),
        )
    return made


def _operators(status: RunStatus) -> WordTable:
    headings = ["operator", "judged", "right", "best\ngain", "new\nbest", "had\nnothing"]  # short for 80 columns
    asked = any(row.calls or row.unusable or row.insights or row.cost_usd for row in status.operators)
    if asked:
        headings += ["no\nuse", "insights", "cost"]
    made = table(*headings, right=range(1, len(headings)), drop=(7, 6, 5) if asked else ())
    for row in status.operators:
        cells = [one_line(row.name, width=24), str(row.results), _share(row.validity), speedup_or_dash(row.best_gain)]
        cells += [str(row.improvements), str(row.barren)]
        if asked:
            cells += [
                str(row.unusable),
                str(row.insights),
                cost(row.cost_usd, tokens=row.tokens, priced=status.priced) or "-",
            ]
        made.add_row(*cells)
    return made


def _models(status: RunStatus) -> WordTable:
    headings = ("model", "calls", "failed", "tokens", "cost", "judged", "right", "no use")
    made = table(*headings, right=range(1, len(headings)), drop=(2, 7, 6))
    for row in status.models:
        made.add_row(
            one_line(row.name, width=32),
            str(row.calls),
            str(row.failed),
            count(row.tokens),
            cost(row.cost_usd, tokens=row.tokens, priced=status.priced) or "-",
            str(row.results),
            _share(row.validity),
            str(row.unusable),
        )
    return made


def _pairs(status: RunStatus) -> WordTable:
    headings = ("operator", "model", "tries", "right", "gain", "dollars", "device\ns", "gain\nper $", "gain\nper h")
    made = table(*headings, right=range(2, len(headings)))
    for row in status.pairs:
        made.add_row(
            one_line(row.operator, width=16),
            one_line(row.model, width=16) or "-",
            str(row.tries),
            str(row.correct),
            f"{row.gain:.2f}",
            cost(row.cost_usd, tokens=row.tokens, priced=status.priced) or "-",
            f"{row.device_s:.0f}",
            _rate(row.gain_per_dollar),
            _rate(row.gain_per_device_hour),
        )
    return made


def _hosts(status: RunStatus) -> WordTable:
    """Return what each host of a cluster does; of a search that has ended, only what it did."""
    made = table("host", "device", "state", "queue", "judged", "a\nminute", "last failure", right=(3, 4, 5), drop=(1,))
    running = status.state is RunState.RUNNING
    for host in status.hosts:
        at = host.failed_at
        ago = f"{host.failures}, {duration(max(0.0, time.time() - at))} ago: " if at is not None else ""
        made.add_row(
            one_line(host.node, width=24) or "-",
            Text(one_line(host.device, width=60), style=DIM),
            Text(host.state.value if running else "-", style="" if host.state is HostState.READY else WARN),
            str(host.queue) if running else "-",
            str(host.judged),
            str(host.per_minute) if running else "-",
            Text(ago + one_line(host.last_failure, width=160), style=DIM),
        )
    return made


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _islands(status: RunStatus) -> WordTable:
    heads = ("niches", "structures", "likeness", "spread") if status.diversity else ()
    made = table("island", "judged", "right", "best in search", *heads, right=(1, 2, 3, 4, 5, 6, 7)[: 3 + len(heads)])
    usual = status.mode.value if status.mode else ""
    for row in status.islands:
        share = f"{row.correct / row.results:.0%}" if row.results else "-"
        best = speedup_or_dash(row.best) + (unless(usual, row.mode) if row.best is not None else "")
        more = _diversity(status.diversity.get(row.name)) if status.diversity else ()
        made.add_row(one_line(row.name, width=24), str(row.results), share, best, *more)
    return made


def _diversity(island: IslandDiversity | None) -> tuple[str, ...]:
    """Return niches, structures, mean likeness, and the least and the largest spread over the workloads."""
    if island is None:
        return ("-",) * 4
    known = sorted(island.spread.values())
    ends = dict.fromkeys(f"{spread:.2g}" for spread in (known[:1] + known[-1:]))
    return str(island.niches), str(island.skeletons), _share(island.likeness), "–".join(ends) or "-"

"""`evokernel compare`: several runs of one task beside each other."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from evokernel.cli.display.tables import effort, put, table
from evokernel.cli.display.text import (
    DIM,
    GOOD,
    STRONG,
    WARN,
    duration,
    interval,
    one_line,
    stdout,
    styled_speedup,
    times,
)
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.locate import open_store, say_if_long
from evokernel.cli.options import POSITIVE, json_option, stores_argument
from evokernel.records.timing import Speedup
from evokernel.report.compare import ComparedRun, Comparison, Difference, SeedGroup, SpeedupMilestone, Spread, compare
from evokernel.report.comparison_document import comparison_document
from evokernel.report.effort import prices_known
from evokernel.report.verdicts import MeasurementKind

RUNS_BELOW = 4
"""Number of runs from which on each has a row of its own."""
VALUE_CHARACTERS = 40
Row = tuple[str, Sequence[Text | str]]


@click.command()
@stores_argument
@click.option(
    "--level", "levels", multiple=True, type=POSITIVE, metavar="SPEEDUP",
    help="Say, too, when each run had reached this speed-up over the fastest baselines. May be given several times.",
)  # fmt: skip
@json_option
def command(stores: tuple[Path, ...], levels: tuple[float, ...], as_json: bool) -> None:
    """Compare runs of one task: what each found, what it took, and whether their bests can be told apart.

    Speed-ups are those of the best kernel of each run, measured anew where that was done, with their 95 % intervals.
    Runs that differ in nothing but their seed are grouped. Settings are those that differ and that somebody set; --json
    has all of them, and the speed-ups by workload. How soon a level was reached goes by the numbers of the
    search.
    """
    if len(stores) < 2:
        raise click.UsageError("name at least two stores, for example runs/*.db")
    with ExitStack() as opened:
        runs = [opened.enter_context(open_store(store)) for store in stores]
        say_if_long(*runs)
        found = compare(runs, levels=levels)
    if as_json:
        click.echo(json.dumps(comparison_document(found), indent=2))
        return
    put(stdout(), *comparison_tables(found))


def comparison_tables(found: Comparison) -> list[RenderableType | None]:
    """Return a comparison as it is printed: the verdict first."""
    return [
        Text.assemble((one_line(found.task), STRONG), (f"  {len(found.sides)} runs", DIM)),
        _lines(found),
        *([_below(found), _levels_below(found)] if len(found.sides) >= RUNS_BELOW else [_beside(found)]),
        _groups(found.groups) if found.groups else None,
        _settings(found),
    ]


def _beside(found: Comparison) -> WordTable:
    """Return the runs side by side."""
    names = [one_line(side.name, width=24) for side in found.sides]
    made = table("", *names, right=range(1, len(names) + 1))
    for label, cells in _rows(found):
        made.add_row(Text(label, style=DIM), *cells)
    return made


def _below(found: Comparison) -> WordTable:
    """Return the runs below each other."""
    spent = any(side.spent.calls or side.spent.cost_usd for side in found.sides)
    made = table(
        "run", "speed-up", "95 % interval", "held-out", "judged", "right", "time", "on the device",
        "models" if spent else "", "seed", right=(1, 2, 4, 5, 6, 7, 9), drop=(7, 9, 8, 5, 3, 6, 2), told=True,
    )  # fmt: skip
    for side in found.sides:
        best = side.best
        made.add_row(
            one_line(side.name, width=24),
            styled_speedup(best.speedup) if best else "-",
            interval(best.speedup) if best else "-",
            best.holdout.value if best else "-",
            str(side.judged),
            f"{side.correct / side.judged:.0%}" if side.judged else "-",
            duration(side.spent.seconds),
            duration(side.device_s),
            _paid(side) or ("-" if spent else ""),
            str(side.seed),
        )
    return made


def _levels_below(found: Comparison) -> WordTable | None:
    """Return how soon each run reached each level, the runs below each other; None without levels."""
    if not found.levels:
        return None
    labels, columns = zip(*_levels(found), strict=True)
    made = table("run", *labels, right=range(1, 1 + len(labels)))
    for number, side in enumerate(found.sides):
        made.add_row(one_line(side.name, width=24), *(cells[number] for cells in columns))
    return made


def _settings(found: Comparison) -> WordTable | None:
    """Return the settings that differ and that somebody set, with the runs of each value; None without any."""
    made = table("setting", "value", "runs")
    for key, values in found.differing_given.items():
        runs: dict[str, list[str]] = {}
        for side, value in zip(found.sides, values, strict=True):
            runs.setdefault(_value(value), []).append(side.name)
        for number, (value, names) in enumerate(runs.items()):
            made.add_row(Text("" if number else one_line(key), style=DIM), value, one_line(", ".join(names), width=200))
    return made if found.differing_given else None


def _rows(found: Comparison) -> Iterator[Row]:
    yield from _speedups(found.sides)
    yield "", [""] * len(found.sides)
    yield from _efforts(found.sides)
    yield from _levels(found)
    if len({side.seed for side in found.sides}) > 1:
        yield "seed", [str(side.seed) for side in found.sides]


def _speedups(sides: Sequence[ComparedRun]) -> Iterator[Row]:
    def cell(speedup: Speedup | None) -> Text | str:
        if speedup is None:
            return "-"
        return styled_speedup(speedup).append(f" {interval(speedup)}", style=DIM)

    bests = [side.best for side in sides]
    names = dict.fromkeys(name for best in bests if best for name in best.baselines)
    for name in names:
        yield f"over {one_line(name)}", [cell(best.baselines.get(name)) if best else "-" for best in bests]
    if len(names) != 1:
        yield "over the fastest on each workload", [cell(best.speedup) if best else "-" for best in bests]
    timings = [{(t.workload, t.baseline): t.speedup for t in best.evaluation.timings} if best else {} for best in bests]
    for workload, baseline in dict.fromkeys(key for each in timings for key in each):
        row = [cell(each.get((workload, baseline))) for each in timings]
        yield f"  {one_line(workload)}, over {one_line(baseline)}", row
    yield "over its seed", [cell(best.over_seed.speedup) if best and best.over_seed else "-" for best in bests]
    measured = {MeasurementKind.FINAL: "anew", MeasurementKind.SEARCH: "in the search"}
    yield "measured", [measured[best.kind] if best else "-" for best in bests]
    yield "held-out workloads", [best.holdout.value if best else "-" for best in bests]
    modes = [best.evaluation.key.mode.value if best else "-" for best in bests]
    yield "mode", modes


def _efforts(sides: Sequence[ComparedRun]) -> Iterator[Row]:
    yield "judged", [str(side.judged) for side in sides]
    yield "right", [f"{side.correct / side.judged:.0%}" if side.judged else "-" for side in sides]
    yield "time", [duration(side.spent.seconds) for side in sides]
    yield "on the device", [duration(side.device_s) for side in sides]
    if any(side.spent.calls or side.spent.cost_usd for side in sides):
        yield "models", [_paid(side) or "-" for side in sides]


def _paid(side: ComparedRun) -> str:
    spent = side.spent
    return effort(spent.calls, spent.tokens, spent.cost_usd, priced=prices_known(side.run.config))


def _levels(found: Comparison) -> Iterator[Row]:
    yield from map(_level, found.levels)


def _level(level: SpeedupMilestone) -> Row:
    same = len(set(level.speedups)) == 1 and level.speedups[0] is not None
    cells = []
    for speedup, leader in zip(level.speedups, level.reached, strict=True):
        own = "" if same or speedup is None else f" ({times(speedup)})"
        cells.append("never" if leader is None else f"{leader.evaluations}{own}")
    goal = f"{times(level.speedups[0] or 0)}, {level.name}" if same else level.name
    return f"judged until {goal.removesuffix(', ')}", cells


def _value(value: Any) -> str:
    text = "-" if value in (None, "") else value if isinstance(value, str) else json.dumps(value)
    return one_line(text, width=VALUE_CHARACTERS)


def _groups(groups: Sequence[SeedGroup]) -> WordTable:
    made = table(
        "alike but for the seed; medians",
        "runs",
        "speed-up",
        "judged",
        "time",
        "on the device",
        right=range(1, 6),
        drop=(5, 4),
    )
    for group in groups:
        spread = group.spreads.get
        made.add_row(
            one_line(", ".join(group.names), width=60),
            str(len(group.names)),
            _spread(spread("speedup"), times),
            _spread(spread("judged"), lambda value: f"{value:g}"),
            _spread(spread("seconds"), duration),
            _spread(spread("device_s"), duration),
        )
    return made


def _spread(spread: Spread | None, said: Any) -> Text | str:
    if spread is None:
        return "-"
    around = "" if spread.low == spread.high else f"\n{said(spread.low)} to {said(spread.high)}"
    return Text.assemble(said(spread.median), (around, DIM))


def _lines(found: Comparison) -> Text | None:
    """Return in words what the numbers say, or None for nothing."""
    lines = [_difference(each) for each in found.differences]
    if len(lines) > 1:  # always the same run on one side
        lines.insert(0, (f"{found.differences[0].one} seems the fastest, so each other run is compared with it", DIM))
    lines += [(f"note: {note}", WARN) for note in found.notes]
    if not found.comparable:
        lines.append(("so their speed-ups cannot be compared, only looked at side by side", WARN))
    if not found.groups and any(each.told_apart for each in found.differences):
        lines.append(("one run of each: how much runs differ with nothing but another seed is not known", DIM))
    lines += [(line, "") for line in _group_lines(found.groups)] if found.comparable else []
    parts = [(f"{'' if number == 0 else chr(10)}{one_line(line)}", style) for number, (line, style) in enumerate(lines)]
    return Text.assemble(*parts) if parts else None


def _difference(found: Difference) -> tuple[str, str]:
    if found.ratio is None:
        return f"{found.one} and {found.other} cannot be compared: {found.reason}", WARN
    how = "measured anew" if found.kind is MeasurementKind.FINAL else "by the numbers that selected them"
    over = f", over {one_line(found.over)}" if found.over else ""
    ratio = found.ratio
    one, other = found.one, found.other
    if found.told_apart and ratio.value < 1:
        one, other, ratio = other, one, Speedup(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)
    said = f"{times(ratio.value)} ({interval(ratio)}), {how}{over}"
    if not found.told_apart:
        return f"{one} and {other} cannot be told apart: {said}", ""
    return f"the best of {one} is faster than that of {other}: {said}", GOOD


def _group_lines(groups: Sequence[SeedGroup]) -> Iterator[str]:
    """Compare groups by their ranges; the interval of one run does not measure how much runs differ."""
    known = [(group.spreads["speedup"], group.names[0]) for group in groups if "speedup" in group.spreads]
    known = sorted(((spread, name) for spread, name in known if spread.count > 1), key=lambda each: -each[0].median)
    for (high, one), (low, other) in pairwise(known):
        if high.low > low.high:
            yield f"every run like {one} ended faster than every run like {other}"
        else:
            yield f"runs like {one} and runs like {other} cannot be told apart: their ranges overlap"

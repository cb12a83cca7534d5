"""Tables and sheets that several commands share. All cells are plain text: the consoles have no markup."""

from collections.abc import Iterable, Mapping

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from evokernel.cli.display.text import (
    BAD,
    DIM,
    GOOD,
    STRONG,
    WARN,
    clean,
    interval,
    microseconds,
    one_line,
    styled_speedup,
    times,
)
from evokernel.records.evaluation import Evaluation
from evokernel.records.llm import Insight
from evokernel.records.timing import Speedup, bounds
from evokernel.report.best import BestKernel
from evokernel.report.provenance import Provenance
from evokernel.report.status import RunFacts
from evokernel.report.verdicts import Holdout, MeasurementKind

_HOLDOUT = {
    Holdout.PASSED: (GOOD, "passed: measured anew on inputs the search never saw"),
    Holdout.FAILED: (BAD, "failed: does not hold on inputs the search never saw"),
    Holdout.PENDING: (WARN, "pending: these numbers selected it and flatter it"),
}


def table(*headings: str, right: Iterable[int] = ()) -> Table:
    """Return an empty table in the house style; `right` are the columns of numbers, by position."""
    made = Table(box=box.SIMPLE_HEAD, header_style=DIM, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    numbers = set(right)
    for position, heading in enumerate(headings):
        made.add_column(heading, justify="right" if position in numbers else "left", overflow="fold")
    return made


def sheet(rows: Mapping[str, str | Text]) -> Table:
    """Return names and values below each other; empty values are left out."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style=DIM, no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            made.add_row(name, value if isinstance(value, Text) else clean(value))
    return made


def put(console: Console, *parts: RenderableType | None) -> None:
    """Print the parts one below the other, indented, with an empty line between and no blanks at line ends."""
    shown = [part for part in parts if part is not None]
    with console.capture() as captured:
        console.print(Group(*(Padding(part, (0, 0, 1, 2), expand=False) for part in shown)))
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip().split("\n")), file=console.file)


def unless(usual: str, mode: str) -> str:
    """Return a remark on an unusual mode; nothing for the usual one."""
    return "" if mode in ("", usual) else f" ({mode} mode)"


def holdout_text(holdout: Holdout) -> Text:
    """Return the verdict of the held-out workloads in words."""
    style, words = _HOLDOUT[holdout]
    return Text(words, style=style)


def title(best: BestKernel) -> Text:
    """Return the heading of the best kernel."""
    made = f"  {one_line(best.candidate.language)}, {best.evaluation.key.mode.value} mode{best.evaluation.mark}"
    made += ": the seed, nothing faster was found" if best.is_seed else ""
    return Text.assemble(("best kernel ", STRONG), (best.candidate.id, STRONG), (made, DIM))


def comparison(best: BestKernel) -> Table:
    """Return the speed-up over the seed and over each baseline, with intervals."""
    made = table("compared with", "speed-up", "95 % interval", "measured", right=(1, 2))

    def add(name: str, speedup: Speedup, kind: MeasurementKind, where: str = "") -> None:
        measured = Text(f"anew{where}" if kind is MeasurementKind.FINAL else "in the search", style=DIM)
        made.add_row(name, styled_speedup(speedup), interval(speedup), measured)

    if best.over_seed is not None and not best.is_seed:
        seed = best.over_seed
        note = unless(best.evaluation.key.mode.value, seed.mode)
        add(f"seed {seed.candidate[:8]}{note}", seed.speedup, seed.kind)
    for name, speedup in best.baselines.items():
        add(one_line(name, width=32), speedup, best.kind)
    if len(best.baselines) != 1:
        add("fastest on each workload", best.speedup, best.kind)
    if (elsewhere := best.evaluation.holdout_speedup) is not None:
        add("fastest baseline", elsewhere, best.kind, ", on held-out workloads")
    return made


def workloads(evaluation: Evaluation, *, floors: bool = False) -> Table:
    """Return times and speed-ups by workload; with `floors`, the share of the floor that is reached, too."""
    more = ("of floor", "") if floors else ()
    made = table("workload", "kernel", "baseline", "", "speed-up", "95 % interval", *more, right=(1, 2, 4, 5, 6))
    for timing in evaluation.timings:
        share = f"{timing.floor_share:.0%}" if timing.floor_share else "-"
        reached = (share, Text(timing.limit.bound if timing.limit else "", style=DIM)) if floors else ()
        made.add_row(
            one_line(timing.workload, width=28),
            microseconds(timing.candidate_us),
            microseconds(timing.baseline_us),
            Text(one_line(timing.baseline, width=20), style=DIM),
            styled_speedup(timing.speedup),
            interval(timing.speedup),
            *reached,
        )
    return made


def best_kernel_tables(best: BestKernel, run: RunFacts) -> tuple[RenderableType | None, ...]:
    """Return everything that is shown of the best kernel."""
    return (
        title(best),
        comparison(best),
        workloads(best.evaluation),
        circumstances(best, run),
        contender_line(best),
    )


def circumstances(best: BestKernel, run: RunFacts) -> Table:
    """Return the conditions under which the numbers hold."""
    key = best.evaluation.key
    share = f"{best.floor_share:.0%} of what the device allows" if best.floor_share else ""
    bound = bounds(best.evaluation.timings)
    return sheet(
        {
            "holdout": holdout_text(best.holdout),
            "floor": f"{share} ({bound})" if share and bound else share,
            "device": one_line(key.device),
            "environment": one_line(key.environment),
            "mode": key.mode.value,
            "sandbox": sandbox_text(best.evaluation.sandbox or run.sandbox),
            "store": str(run.path),
        }
    )


def sandbox_text(said: str) -> str:
    """Return the description of a sandbox without its prefix."""
    return one_line(said).removeprefix("sandbox ") or "not said"


def contender_line(best: BestKernel) -> Text | None:
    """Return a line on a fitter candidate without a final measurement, or None."""
    if best.contender is None:
        return None
    return Text(
        f"{best.contender} looks faster but was not measured anew yet; `evokernel evolve` will do it", style=WARN
    )


def count(number: int) -> str:
    """Return a large number in three digits or so, for example `12k`."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.{0 if number >= 10 * size else 1}f}{unit}"
    return str(number)


def dollars(value: float) -> str:
    """Return a sum of money, with four decimals where it is small."""
    return f"${value:.2f}" if value == 0 or value >= 0.1 else f"${value:.4f}"


def cost(cost_usd: float, *, tokens: int, priced: bool) -> str:
    """Return the cost of tokens; `unknown` where they were used at no known price, empty where there are none."""
    if cost_usd or (tokens and priced):
        return dollars(cost_usd)
    return "unknown" if tokens else ""


def effort(calls: int, tokens: int, cost_usd: float, *, priced: bool) -> str:
    """Return the cost of calls to models, for example `3 calls, 12k tokens, $0.04`; empty without calls."""
    said = f"{calls} call{'' if calls == 1 else 's'}" if calls else ""
    used = f"{count(tokens)} tokens" if tokens else ""
    paid = dollars(cost_usd) if cost_usd else "cost unknown" if tokens and not priced else ""
    return ", ".join(part for part in (said, used, paid) if part)


def made_by(making: Provenance) -> str:
    """Return the model of a proposal and its cost; empty for a proposal by rule."""
    if not making.model:
        return ""
    paid = effort(making.calls, making.tokens, making.cost_usd, priced=making.priced)
    return ", ".join(part for part in (one_line(making.model), paid) if part)


def insight_line(seq: int, insight: Insight) -> str:
    """Return an insight in one line, with its predicted speed-up."""
    expected = f", predicted {times(insight.predicted_speedup)}" if insight.predicted_speedup is not None else ""
    return f"{insight.kind.value} {seq}: {one_line(insight.title, width=120)}{expected}"


def speedup_or_dash(value: float | None) -> str:
    """Return a speed-up, or a dash where there is none."""
    return "-" if value is None else times(value)

"""Tables and sheets that several commands share. All cells are plain text: the consoles have no markup."""

from collections.abc import Iterable, Mapping, Sequence

import click
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.segment import Segment, Segments
from rich.syntax import Syntax
from rich.text import Text

from evokernel.cli.display.text import (
    BAD,
    DIM,
    GOOD,
    STRONG,
    WARN,
    clean,
    interval,
    one_line,
    styled_speedup,
    times,
)
from evokernel.cli.display.word_table import WordTable, wrapped
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation
from evokernel.records.llm import Insight
from evokernel.records.timing import Speedup, bounds, microseconds
from evokernel.report.best import BestKernel
from evokernel.report.provenance import Provenance
from evokernel.report.status import RunFacts
from evokernel.report.verdicts import Holdout, MeasurementKind, torch_words

INDENT = "  "
LONGEST_LINE = 100_000
"""The most characters that a line of code can have in a terminal."""
_HOLDOUT = {
    Holdout.PASSED: (GOOD, "passed: measured anew on inputs the search never saw"),
    Holdout.FAILED: (BAD, "failed: does not hold on inputs the search never saw"),
    Holdout.PENDING: (
        WARN,
        "pending: these numbers selected it and flatter it; a search measures its winner anew at its end, and an "
        "export does so for itself alone: it only reads the store",
    ),
}


def table(*headings: str, right: Iterable[int] = (), drop: Sequence[int] = (), told: bool = False) -> WordTable:
    """Return an empty table in the house style.

    Args:
        headings: one for each column.
        right: positions of the columns of numbers.
        drop: positions of columns that a narrow terminal does without, the first to go first.
        told: say below which ones it did without.
    """
    return WordTable(headings, right=right, drop=drop, told=told)


def sheet(rows: Mapping[str, str | Text]) -> WordTable:
    """Return names and values below each other; empty values are left out."""
    made = WordTable(("", ""), styles=(DIM,))
    for name, value in rows.items():
        if value:
            made.add_row(name, value if isinstance(value, Text) else clean(value))
    return made


def put(console: Console, *parts: RenderableType | None) -> None:
    """Print the parts one below the other, indented, with an empty line between and no blanks at line ends.

    Prose wraps between words; code is never cropped.
    """
    shown = [list(_lines(console, part)) for part in parts if part is not None]
    with console.capture() as captured:
        for number, lines in enumerate(shown):
            for line in [*([Text("")] if number else []), *lines]:
                indented = (
                    Text.assemble(INDENT, line)
                    if isinstance(line, Text)
                    else Segments([Segment(INDENT), *line, Segment.line()])
                )
                console.print(indented, crop=False, no_wrap=True, overflow="ignore")
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip().split("\n")), file=console.file)


def _lines(console: Console, part: RenderableType) -> Iterable[Text | list[Segment]]:
    width = console.width - len(INDENT)
    if isinstance(part, WordTable):
        return part.lines(width)
    if isinstance(part, str | Text):
        return wrapped(Text(part) if isinstance(part, str) else part, width)
    widest = Measurement.get(console, console.options.update_width(LONGEST_LINE), part).maximum
    return console.render_lines(part, console.options.update_width(max(width, widest)), pad=False)


def code(candidate: Candidate) -> Syntax:
    """Return the source of a candidate, highlighted."""
    from evokernel.languages import syntax_of  # half a second, which most commands do without

    lexer = syntax_of(candidate.language) or "text"
    return Syntax(clean(candidate.source), lexer, theme="ansi_dark", background_color="default")


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
    heading = "best kernel measured anew " if best.contender_leads else "best kernel "
    return Text.assemble((heading, STRONG), (best.candidate.id, STRONG), (made, DIM))


def comparison(best: BestKernel) -> WordTable:
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


def workloads(evaluation: Evaluation, *, floors: bool = False, heading: str = "workload") -> WordTable:
    """Return times and speed-ups by workload, under a heading; with `floors`, the share of the floor reached, too."""
    more = ("of floor", "") if floors else ()
    made = table(
        heading, "kernel", "baseline", "", "speed-up", "95 % interval", *more,
        right=(1, 2, 4, 5, 6), drop=(7, 6, 3, 2) if floors else (3, 2),
    )  # fmt: skip
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


def best_kernel_tables(
    best: BestKernel, run: RunFacts, *, environment: bool = False
) -> tuple[RenderableType | None, ...]:
    """Return what is measured of the best kernel; with `environment`, compilers and sandbox in full, too."""
    return (
        title(best),
        *remarks(best, run),
        comparison(best),
        workloads(best.evaluation),
        circumstances(best, run, environment=environment),
    )


def circumstances(best: BestKernel, run: RunFacts, *, environment: bool) -> WordTable:
    """Return the conditions under which the numbers hold."""
    key = best.evaluation.key
    share = f"{best.floor_share:.0%} of what the device allows" if best.floor_share else ""
    bound = bounds(best.evaluation.timings)
    return sheet(
        {
            "holdout": holdout_text(best.holdout),
            "floor": f"{share} ({bound})" if share and bound else share,
            "device": one_line(key.device),
            "environment": one_line(key.environment) if environment else "",
            "mode": key.mode.value,
            "sandbox": sandbox_text(best.evaluation.sandbox or run.sandbox, full=environment),
            "store": str(run.path),
        }
    )


def sandbox_text(said: str, *, full: bool = True) -> str:
    """Return the description of a sandbox, or only its level."""
    text = one_line(said).removeprefix("sandbox ") or "not said"
    return text if full else text.partition(": ")[0]


def remarks(best: BestKernel, run: RunFacts) -> list[Text]:
    """Return lines on a fitter candidate without a final measurement, and on a best kernel that is slower than torch.

    They stand under the title, before numbers that could be taken for a success, or for all that was found.
    """
    found, torch = [], torch_words(best.evaluation.timings)
    if best.contender is not None and best.contender_speedup is not None:
        speed = f"{times(best.contender_speedup.value)} ({interval(best.contender_speedup)})"
        how = f"leads the search with {speed}" if best.contender_leads else f"looks faster in the search, with {speed}"
        later = "`evokernel evolve` with the same config measures it at its end"
        now = f"`evokernel export {run.path} --id {best.contender[:8]}` does now, to take it home"
        found.append(Text(f"{best.contender} {how}, and was not measured anew yet: {later}, {now}", style=WARN))
    if best.nowhere_faster:
        found.append(
            Text(f"{best.candidate.id} is slower than {torch} on every workload: an export refuses it", style=BAD)
        )
    elif best.nowhere_clearly_faster:
        said = f"is clearly faster than {torch} on no workload: an export measures it anew, and may refuse it"
        found.append(Text(f"{best.candidate.id} {said}", style=WARN))
    return found


def to_take(best: BestKernel, run: RunFacts) -> str:
    """Return how to take home what was found; why not yet, where an export would refuse it."""
    if best.nowhere_faster and not best.contender_leads:
        return "nothing yet, since an export refuses it (with --accept-from 0 it is taken all the same)"
    return f"evokernel export {run.path}"


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


def measured_how(kind: MeasurementKind) -> str:
    """Return the source of a number in words."""
    return "final measurement" if kind is MeasurementKind.FINAL else "in the search"


def speedup_or_dash(value: float | None) -> str:
    """Return a speed-up, or a dash where there is none."""
    return "-" if value is None else times(value)

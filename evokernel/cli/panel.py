"""The panel of the live view as a pure function of what is known: drawn for the width and height there are."""

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evokernel.cli.snapshot import Snapshot
from evokernel.cli.tables import speedup_or_dash, table, unless
from evokernel.cli.text import DIM, GOOD, STRONG, WARN, duration, one_line, rate, reason, times
from evokernel.protocols import Note

WIDE = 120
SHORT = 18
MARGIN = 2


@dataclass(frozen=True, slots=True)
class Improvement:
    """A new best kernel: its speed-up over the fastest baselines, who made it and why, how it was run."""

    candidate: str
    speedup: float
    operator: str
    island: str
    rationale: str
    mode: str


@dataclass(frozen=True, slots=True)
class PanelState:
    """All the panel shows. Times in seconds; `rate` in results per second; `improvements` newest first."""

    title: str
    snapshot: Snapshot
    elapsed_s: float
    left_s: float | None
    rate: float
    in_flight: int
    valid_share: float | None
    improvements: tuple[Improvement, ...]
    note: Note


def panel(state: PanelState, *, width: int, height: int) -> RenderableType:
    """Return what to draw on a terminal of this size, in columns and lines."""
    inner = max(20, width - 2 * MARGIN)
    tables = _tables(state, inner, rows=3 if height < SHORT else 12)
    parts: list[RenderableType] = [_head(state, inner), _bar(state, inner), "", _best(state), _pace(state)]
    if tables is not None:
        parts += ["", tables]
    if state.note.text:
        style = WARN if state.note.warning else DIM
        parts += ["", Text(one_line(state.note.text, width=inner), style=style)]
    return Padding(Group(*parts), (1, MARGIN, 0, MARGIN), expand=False)


def _head(state: PanelState, width: int) -> Table:
    made = Table.grid(expand=True)
    made.width = width
    made.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    made.add_column(justify="right", no_wrap=True)
    made.add_row(Text(one_line(state.title), style=STRONG), Text(duration(state.elapsed_s), style=DIM))
    return made


def _bar(state: PanelState, width: int) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.width = width
    remaining = state.snapshot.remaining
    if remaining is None:
        made.add_row(Text("no end can be foretold: it stops when a rule of the budget says so", style=DIM))
        return made
    made.add_column(ratio=1)
    made.add_column(no_wrap=True)
    left = f"about {duration(state.left_s)} left" if state.left_s is not None else ""
    bar = ProgressBar(total=1.0, completed=1 - remaining, complete_style=GOOD, finished_style=GOOD)
    made.add_row(bar, Text.assemble(f"{1 - remaining:4.0%}", ("  " + left if left else "", DIM)))
    return made


def _best(state: PanelState) -> Text:
    snapshot = state.snapshot
    if not snapshot.best:
        return Text("no correct kernel yet", style=DIM)
    parts: list[tuple[str, str]] = [("best  ", DIM), (snapshot.best[:8], STRONG)]
    if snapshot.over_seed is not None:
        parts += [("   ", ""), (times(snapshot.over_seed), GOOD), (" seed", DIM)]
    for name, value in snapshot.baselines.items():
        parts += [("   ", ""), (times(value), GOOD if value > 1 else ""), (f" {one_line(name, width=24)}", DIM)]
    if snapshot.progress.roofline_share is not None:
        parts += [("   ", ""), (f"{snapshot.progress.roofline_share:.0%}", ""), (" of the floor", DIM)]
    parts += [("   ", ""), (_ago(snapshot.progress.since_improvement), DIM), (f"   {snapshot.mode} mode", DIM)]
    return Text.assemble(*parts)


def _ago(results: int) -> str:
    return "just now" if results == 0 else f"{results} result{'' if results == 1 else 's'} ago"


def _pace(state: PanelState) -> Text:
    progress = state.snapshot.progress
    parts = [f"{progress.evaluations} judged"]
    if progress.evaluations:
        parts.append(f"{state.snapshot.correct / progress.evaluations:.0%} right")
    parts.append(rate(state.rate))
    if state.valid_share is not None:
        parts.append(f"{state.valid_share:.0%} right of late")
    parts.append(f"{state.in_flight} in flight")
    if progress.cost_usd:
        parts.append(f"${progress.cost_usd:.2f}")
    return Text("   ".join(parts), style=DIM)


def _tables(state: PanelState, width: int, *, rows: int) -> RenderableType | None:
    islands = _islands(state, rows) if state.snapshot.islands else None
    if islands is None:
        return None
    if width < WIDE:
        return Group(islands, "", _improvements(state, width, rows))
    side = Table.grid(padding=(0, 4, 0, 0))
    side.add_row(islands, _improvements(state, width - 52, rows))
    return side


def _islands(state: PanelState, rows: int) -> Table:
    made = table("island", "niches", "best", "stale", right=(1, 2, 3))
    for island in state.snapshot.islands[:rows]:
        name = one_line(island.name, width=18)
        made.add_row(name, str(island.niches), speedup_or_dash(island.best), str(island.stale))
    hidden = len(state.snapshot.islands) - rows
    if hidden > 0:
        made.add_row(Text(f"{hidden} more", style=DIM))
    return made


def _improvements(state: PanelState, width: int, rows: int) -> Table:
    made = table("speed-up", "operator", "last improvements", right=(0,))
    room = max(10, width - 26)
    for column, limit in zip(made.columns, (9, 10, room), strict=True):
        column.no_wrap, column.overflow, column.max_width = True, "ellipsis", limit
    for found in state.improvements[:rows]:
        said = f"{unless(state.snapshot.mode, found.mode)} {reason(found.operator, found.rationale)}".strip()
        why = Text(one_line(said, width=room), style=DIM)
        made.add_row(times(found.speedup), one_line(found.operator, width=10), why)
    if not state.improvements:
        made.add_row("-", "", Text("none in this session", style=DIM))
    return made

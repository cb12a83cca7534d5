"""The panel of the live view, a pure function of state, width and height."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evokernel.cli.display.curve import curve
from evokernel.cli.display.snapshot import IslandState, Snapshot
from evokernel.cli.display.tables import cost, speedup_or_dash, unless
from evokernel.cli.display.text import DIM, GOOD, STRONG, WARN, duration, one_line, rate, reason, times
from evokernel.records.events import Notice
from evokernel.records.host_activity import HostActivity, HostState

WIDE = 120
"""From this width on, in columns, tables stand side by side."""
TALL = 30
"""From this height on, in lines, the curve is drawn large."""
MARGIN = 2
GAP = 3
ISLAND_COLUMNS = 46
WHY_COLUMNS = 70
"""Least width of the improvements beside the islands, in columns."""
HEADING = 2
"""Lines of a table above its rows."""


@dataclass(frozen=True, slots=True)
class PanelState:
    """All that the panel shows."""

    title: str
    """Task and store."""
    snapshot: Snapshot
    elapsed_s: float
    """Time since the search began, in s."""
    left_s: float | None
    """Time until the budget is used, in s; None where unknown."""
    rate: float
    """Results per second over the last minute."""
    valid_share: float | None
    """Share of right results in the last minute, 0 to 1; None without results."""
    note: Notice
    """The newest message."""


def panel(state: PanelState, *, width: int, height: int) -> RenderableType:
    """Return what to draw on a terminal of this size, in columns and lines."""
    inner = max(20, width - 2 * MARGIN)
    snapshot = state.snapshot
    facts = [*_flow(_best(state), inner), *_flow(_pace(state), inner)]
    parts: list[RenderableType] = [_head(state, inner)]
    if snapshot.remaining is not None or not snapshot.halted:
        parts.append(_bar(state, inner))
    if snapshot.halted:
        parts.append(Text(one_line(snapshot.halted, width=inner), style=WARN))
    parts += ["", *facts]
    if snapshot.curve:
        rows = 4 if height >= TALL else 1
        parts += ["", curve(snapshot.curve, until=snapshot.results, width=inner, rows=rows)]
    lines = len(parts) + (3 if snapshot.curve and height >= TALL else 0)
    said = state.note.text and state.note.text != snapshot.halted
    note: list[RenderableType] = [] if not said else ["", _note(state, inner)]
    if snapshot.hosts and not snapshot.halted:
        most = max(1, (height - 2 - lines - len(note)) // 3 - 1 - HEADING)  # a third of the room
        shown = _hosts(snapshot.hosts, most, inner)
        parts += ["", shown]
        lines += 1 + HEADING + shown.row_count
    parts += _tables(state, inner, room=height - 2 - lines - len(note))
    return Padding(Group(*parts, *note), (1, MARGIN, 0, MARGIN), expand=False)


def _note(state: PanelState, width: int) -> Text:
    return Text(one_line(state.note.text, width=width), style=WARN if state.note.warning else DIM)


def _head(state: PanelState, width: int) -> Table:
    made = Table.grid(expand=True)
    made.width = width
    made.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    made.add_column(justify="right", no_wrap=True)
    said = state.snapshot.state
    state_text = Text.assemble((f"{said}  " if said else "", WARN if state.snapshot.halted else GOOD))
    made.add_row(Text(one_line(state.title), style=STRONG), state_text.append(duration(state.elapsed_s), style=DIM))
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


def _flow(items: Iterable[Text], width: int) -> list[Text]:
    """Set items one after another, with a new line where the next does not fit; no item is broken."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + GAP + item.cell_len <= width:
            lines[-1].append(" " * GAP).append_text(item)
        else:
            item.no_wrap, item.overflow = True, "ellipsis"
            lines.append(item)
    return lines


def _best(state: PanelState) -> list[Text]:
    snapshot = state.snapshot
    if not snapshot.best:
        return [Text("no correct kernel yet", style=DIM)]
    items = [Text.assemble(("best  ", DIM), (snapshot.best[:8], STRONG))]
    if snapshot.over_seed is not None:
        items.append(Text.assemble((times(snapshot.over_seed), GOOD), (" seed", DIM)))
    for name, value in snapshot.baselines.items():
        items.append(Text.assemble((times(value), GOOD if value > 1 else ""), (f" {one_line(name, width=24)}", DIM)))
    if snapshot.progress.roofline_share is not None:
        items.append(Text.assemble(f"{snapshot.progress.roofline_share:.0%}", (" of the floor", DIM)))
    return [
        *items,
        Text(_ago(snapshot.progress.since_improvement), style=DIM),
        Text(f"{snapshot.mode} mode", style=DIM),
    ]


def _ago(results: int) -> str:
    return "just now" if results == 0 else f"{results} result{'' if results == 1 else 's'} ago"


def _pace(state: PanelState) -> list[Text]:
    snapshot = state.snapshot
    parts = [f"{snapshot.progress.evaluations} judged"]
    if snapshot.results:
        parts.append(f"{snapshot.correct / snapshot.results:.0%} right")
    if not snapshot.halted:
        parts.append(rate(state.rate))
        if state.valid_share is not None:
            parts.append(f"{state.valid_share:.0%} right of late")
    if not snapshot.halted:
        parts.append(f"{snapshot.in_flight} in flight")
    elif snapshot.in_flight:
        parts.append(f"{snapshot.in_flight} left to judge")
    if paid := cost(snapshot.progress.cost_usd, tokens=snapshot.progress.tokens, priced=snapshot.priced):
        parts.append(paid if paid.startswith("$") else f"cost {paid}")
    return [Text(part, style=DIM) for part in parts]


def _tables(state: PanelState, width: int, *, room: int) -> list[RenderableType]:
    """Return the tables of islands and improvements that fit into `room` lines, each below an empty line."""
    islands, found = state.snapshot.islands, max(1, len(state.snapshot.improvements))
    rows = room - 1 - HEADING
    if not islands or rows < 1:
        return []
    if width >= WIDE:
        side = Table.grid(padding=(0, GAP + 1, 0, 0))
        blocks = _blocks(islands, rows, most=(width - WHY_COLUMNS) // ISLAND_COLUMNS)
        side.add_row(*blocks, _improvements(state, width - ISLAND_COLUMNS * len(blocks), rows))
        return ["", side]
    below = rows - 1 - HEADING  # for the rows of both tables
    if below < 4:
        return ["", _islands(islands, rows)]
    of_islands = min(len(islands), max(below - found, below // 2))
    made = _islands(islands, of_islands)
    return ["", made, "", _improvements(state, width, below - made.row_count)]


def _blocks(islands: Sequence[IslandState], rows: int, *, most: int) -> list[Table]:
    """Return the islands in as few tables side by side as show them all, at most `most`."""
    needed = min(max(1, most), -(-len(islands) // rows))
    each = -(-len(islands) // needed) if needed * rows >= len(islands) else rows
    parts = [islands[place * each : (place + 1) * each] for place in range(needed - 1)]
    return [*(_islands(part, each) for part in parts), _islands(islands[(needed - 1) * each :], rows)]


def _table(*headings: str, right: Sequence[int]) -> Table:
    """Return a table of one line a row, whatever the width: the panel has a fixed height."""
    made = Table(box=box.SIMPLE_HEAD, header_style=DIM, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for position, heading in enumerate(headings):
        made.add_column(heading, justify="right" if position in right else "left", no_wrap=True)
    return made


def _islands(islands: Sequence[IslandState], rows: int) -> Table:
    made = _table("island", "niches", "best", "stale", right=(1, 2, 3))
    shown = islands if len(islands) <= rows else islands[: max(0, rows - 1)]
    for island in shown:
        name = one_line(island.name, width=18)
        made.add_row(name, str(island.niches), speedup_or_dash(island.best), str(island.stale))
    if len(islands) > len(shown):
        made.add_row(Text(f"{len(islands) - len(shown)} more", style=DIM))
    return made


def _hosts(hosts: Sequence[HostActivity], rows: int, width: int) -> Table:
    """Return the hosts of a cluster, those in trouble first."""
    made = _table("host", "state", "queue", "judged", "a minute", "last failure", right=(2, 3, 4))
    shown = sorted(hosts, key=lambda host: (host.state is HostState.READY, -host.failures))
    shown = shown if len(shown) <= rows else shown[: max(0, rows - 1)]
    for host in shown:
        gpu = host.device.rpartition(" GPU-")[2][:8] if " GPU-" in host.device else ""
        name = one_line(f"{host.node} {gpu}".strip(), width=24) or "-"
        state = Text(host.state.value, style="" if host.state is HostState.READY else WARN)
        failure = Text(one_line(host.last_failure, width=max(10, width - 66)), style=DIM)
        made.add_row(name, state, str(host.queue), str(host.judged), str(host.per_minute), failure)
    if len(hosts) > len(shown):
        made.add_row(Text(f"{len(hosts) - len(shown)} more", style=DIM))
    return made


def _improvements(state: PanelState, width: int, rows: int) -> Table:
    made = _table("speed-up", "operator", "last improvements", right=(0,))
    room = max(10, width - 26)
    for column, limit in zip(made.columns, (9, 10, room), strict=True):
        column.no_wrap, column.overflow, column.max_width = True, "ellipsis", limit
    for found in state.snapshot.improvements[:rows]:
        said = f"{unless(state.snapshot.mode, found.mode)} {reason(found.operator, found.rationale)}".strip()
        why = Text(one_line(said, width=room), style=DIM)
        made.add_row(times(found.speedup), one_line(found.operator, width=10), why)
    if not state.snapshot.improvements:
        made.add_row("-", "", Text("none yet", style=DIM))
    return made

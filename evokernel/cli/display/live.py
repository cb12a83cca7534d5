"""The view of a running search: a live panel on a terminal, single lines anywhere else."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console

from evokernel.cli.display.panel import PanelState, panel
from evokernel.cli.display.rates import SessionRates
from evokernel.cli.display.screen import Screen
from evokernel.cli.display.snapshot import Snapshot
from evokernel.cli.display.text import DIM, STRONG, WARN, duration, one_line, rate, reason, times
from evokernel.records.events import Event, Notice, ResultCommitted
from evokernel.records.leader import LeaderChange

PLAIN_EVERY_S = 10.0
Clock = Callable[[], float]


_WHY = 160
"""Length limit of a reason in a line, in characters; models give long ones."""


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """A judged candidate as a view takes it in."""

    right: bool
    """True for a right result in all checks."""
    improvement: LeaderChange | None = None
    """The change of the leader that it caused, if any."""
    age_s: float = 0.0
    """Time since it was judged, in s."""
    old: bool = False
    """True where it was judged before anybody watched, and is not reported."""


@dataclass(slots=True)
class SessionInfo:
    """Facts of one session that both views fold events into."""

    clock: Clock
    """Monotonic, in s."""
    began: float
    """Start of the session, or its first result if that is earlier, in s of `clock`."""
    pace: SessionRates = field(default_factory=SessionRates)
    """Rates over the last minute."""
    note: Notice = field(default_factory=lambda: Notice(""))
    """The newest message; empty before the first."""
    ran_s: float | None = None
    """Time that all sessions of a followed store have lasted, in s; None in the searching process."""

    def follow(self, snapshot: Snapshot) -> None:
        """Take the time of a followed run, which began before anybody watched."""
        if snapshot.state:
            self.ran_s = snapshot.progress.seconds
            self.began = min(self.began, self.clock() - self.ran_s)

    def take(self, result: JudgedLine) -> None:
        """Fold in one result."""
        at = self.clock() - result.age_s
        self.began = min(self.began, at)
        self.pace.result(at, valid=result.right)

    def elapsed_s(self) -> float:
        """Return how long the session has lasted, in s; for a followed store, all its sessions."""
        return self.clock() - self.began if self.ran_s is None else self.ran_s

    def left_s(self, snapshot: Snapshot) -> float | None:
        """Return how long the budget will last, in s; None where that is unknown, or nothing is searched."""
        ends = snapshot.halted or snapshot.finishing or snapshot.stopping
        return None if ends else self.pace.left_s(self.clock(), snapshot.remaining)

    def rate(self) -> float:
        """Return results per second over the last minute."""
        return self.pace.per_second(self.clock(), since=self.began)


class LiveView:
    """A panel that redraws itself in place."""

    def __init__(self, console: Console, *, title: str, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._session = SessionInfo(clock, clock())
        self._screen = Screen(console)
        self.gone = False

    def follow(self, snapshot: Snapshot) -> None:
        """Take the time of a followed run, before what happened in it is heard."""
        self._session.follow(snapshot)

    def hear(self, event: Event | JudgedLine) -> None:
        """Take note of one event; warnings stay on the terminal above the panel."""
        if isinstance(event, ResultCommitted):
            event = JudgedLine(event.evaluation.ok, event.change)
        if isinstance(event, JudgedLine):
            self._session.take(event)
        elif isinstance(event, Notice):
            self._session.note = event
            if event.warning and not self.gone:
                with self._detect_hangup():
                    self._screen.above(one_line(event.text), style=WARN)

    def tick(self, snapshot: Snapshot) -> None:
        """Redraw."""
        if self.gone:
            return
        session = self._session
        state = PanelState(
            title=f"{snapshot.task}, {self._title}" if snapshot.task else self._title,
            snapshot=snapshot,
            elapsed_s=session.elapsed_s(),
            left_s=session.left_s(snapshot),
            rate=session.rate(),
            valid_share=session.pace.valid_share(),
            note=session.note,
        )
        with self._detect_hangup():
            self._screen.draw(panel(state, width=self._console.width, height=self._console.height))

    @contextmanager
    def _detect_hangup(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.gone = True

    def __enter__(self) -> Self:
        """Begin to show."""
        self._screen.start()
        return self

    def __exit__(self, *details: object) -> None:
        """Remove the panel and show the cursor again."""
        self._screen.stop()


class PlainView:
    """Single lines: improvements and notes as they come, progress now and then."""

    def __init__(self, console: Console, *, title: str, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._session = SessionInfo(clock, clock())
        self._last_progress = clock()
        self._said: str | None = None
        self._led: LeaderChange | None = None
        self.gone = False

    def follow(self, snapshot: Snapshot) -> None:
        """Take the time of a followed run, before what happened in it is heard."""
        self._session.follow(snapshot)

    def hear(self, event: Event | JudgedLine) -> None:
        """Print an improvement or a note."""
        if isinstance(event, ResultCommitted):
            event = JudgedLine(event.evaluation.ok, event.change)
        if isinstance(event, Notice):
            self._line(f"warning: {event.text}" if event.warning else event.text, style=WARN if event.warning else DIM)
        elif isinstance(event, JudgedLine):
            self._session.take(event)
            if event.improvement is not None and not event.old:
                self._improvement(event.improvement)
            self._led = event.improvement or self._led

    def _improvement(self, found: LeaderChange) -> None:
        why = one_line(reason(found.operator, found.rationale), width=_WHY)
        speedup = f"{times(found.speedup)} (at least {times(found.low)}, {found.mode} mode{self._after(found)})"
        self._line(f"new best {speedup}  {found.candidate[:8]}  {found.operator}: {why}", style=STRONG)

    def _after(self, found: LeaderChange) -> str:
        """Say why it leads, where the leader before had a higher number: the low end decides."""
        led = self._led
        if led is None or led.speedup <= found.speedup:
            return ""
        before = times(led.speedup)
        return f"; surer than {before}" if led.low < found.low else f"; {before} did not hold when measured longer"

    def tick(self, snapshot: Snapshot) -> None:
        """Print a line of progress, at most one in ten seconds; for a followed store also at the first tick.

        A search that has stopped, or measures anew, is reported once.
        """
        now = self._session.clock()
        first = self._said is None and bool(snapshot.state)
        if not first and now - self._last_progress < PLAIN_EVERY_S:
            return
        parts = self._progress(snapshot) if snapshot.results else [snapshot.halted or "nothing judged yet"]
        before, self._said, self._last_progress = self._said, ", ".join(filter(None, parts)), now
        if self._said != before or not (snapshot.halted or _ends(snapshot)):
            self._line(self._said, style=DIM)

    def _progress(self, snapshot: Snapshot) -> Iterator[str]:
        yield f"{snapshot.progress.evaluations} judged"
        yield f"{snapshot.correct / snapshot.results:.0%} right"
        used, ends = snapshot.remaining == 0, _ends(snapshot)
        yield rate(self._session.rate()) if not snapshot.halted and not ends else ""
        yield f"best {times(snapshot.over_seed)} seed" if snapshot.over_seed is not None else ""
        for name, value in snapshot.baselines.items():
            yield f"{times(value)} {one_line(name)} ({snapshot.mode})"
        left = self._session.left_s(snapshot)
        yield f"about {duration(left)} left" if left is not None else ""
        yield f"{'budget used: ' if used else ''}finishing, and measuring the best anew" if ends else ""
        yield "stopping: finishing what is in flight" if snapshot.stopping else ""
        yield snapshot.halted

    def __enter__(self) -> Self:
        """Say what begins."""
        self._line(self._title)
        return self

    def __exit__(self, *details: object) -> None:
        """Do nothing: lines stay."""

    def _line(self, text: str, *, style: str = "") -> None:
        if not self.gone:
            line = f"{duration(self._session.elapsed_s()):>12}  {one_line(text)}"
            try:
                self._console.print(line, style=style, soft_wrap=True)
            except OSError:
                self.gone = True


def _ends(snapshot: Snapshot) -> bool:
    """Say whether the searching process only finishes what is in flight, and measures anew."""
    return (snapshot.remaining == 0 or snapshot.finishing) and not snapshot.halted and not snapshot.stopping


SearchView = LiveView | PlainView
"""A view of a search: it takes events, and draws at each tick."""


def make_view(console: Console, *, title: str) -> SearchView:
    """Return a live panel for a terminal, single lines for anything else.

    A CI log with forced colours is no terminal, and a dumb terminal cannot move its cursor: both get single lines.
    """
    live = console.is_interactive and not console.is_dumb_terminal and console.file.isatty()
    return LiveView(console, title=title) if live else PlainView(console, title=title)

"""The view of a running search: a live panel on a terminal, single lines anywhere else."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, Self

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
"""The longest reason in a line, in characters; models give long ones."""


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """A judged candidate as a view takes it in; `improvement` is None for one that is not the best so far.

    `age_s` is how long ago it came. `old`: it came before anybody watched, and is no news.
    """

    right: bool
    improvement: LeaderChange | None = None
    age_s: float = 0.0
    old: bool = False


class SearchView(Protocol):
    """Hears what happens, and draws when it is told to. A context manager."""

    def hear(self, event: Event | JudgedLine) -> None:
        """Take note of one event."""
        ...

    def tick(self, snapshot: Snapshot) -> None:
        """Bring what is shown up to date."""
        ...

    gone: bool
    """Nobody looks any more: the terminal was closed, or the reader of a pipe has left."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(self, *details: object) -> None:
        """Stop showing, leaving the terminal as it was."""
        ...


@dataclass(slots=True)
class SessionInfo:
    """What one session has heard so far; both views fold events into it."""

    clock: Clock
    began: float
    pace: SessionRates = field(default_factory=SessionRates)
    note: Notice = field(default_factory=lambda: Notice(""))

    def take(self, result: JudgedLine) -> None:
        """Fold in one result."""
        at = self.clock() - result.age_s
        self.began = min(self.began, at)
        self.pace.result(at, valid=result.right)

    def elapsed_s(self, snapshot: Snapshot) -> float:
        """Return how long the session has lasted, in s; of a search elsewhere, all of its sessions."""
        return snapshot.progress.seconds if snapshot.state else self.clock() - self.began

    def left_s(self, snapshot: Snapshot) -> float | None:
        """Return how long the budget will last, in s; None where that is not known, or nothing goes on."""
        return None if snapshot.halted else self.pace.left_s(self.clock(), snapshot.remaining)

    def rate(self) -> float:
        """Results per second over the last minute."""
        return self.pace.per_second(self.clock(), since=self.began)


class LiveView:
    """A panel that redraws itself in place."""

    def __init__(self, console: Console, *, title: str, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._session = SessionInfo(clock, clock())
        self._screen = Screen(console)
        self.gone = False

    def hear(self, event: Event | JudgedLine) -> None:
        """Take note of one event; warnings stay on the terminal above the panel."""
        if isinstance(event, ResultCommitted):
            event = JudgedLine(event.evaluation.ok, event.change)
        if isinstance(event, JudgedLine):
            self._session.take(event)
        elif isinstance(event, Notice):
            self._session.note = event
            if event.warning and not self.gone:
                with self._watching():
                    self._screen.above(one_line(event.text), style=WARN)

    def tick(self, snapshot: Snapshot) -> None:
        """Redraw."""
        if self.gone:
            return
        session = self._session
        state = PanelState(
            title=f"{snapshot.task}, {self._title}" if snapshot.task else self._title,
            snapshot=snapshot,
            elapsed_s=session.elapsed_s(snapshot),
            left_s=session.left_s(snapshot),
            rate=session.rate(),
            valid_share=session.pace.valid_share(),
            note=session.note,
        )
        with self._watching():
            self._screen.draw(panel(state, width=self._console.width, height=self._console.height))

    @contextmanager
    def _watching(self) -> Iterator[None]:
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
        self._began = self._last_progress = clock()
        self._said: Snapshot | None = None
        self.gone = False

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

    def _improvement(self, found: LeaderChange) -> None:
        why = one_line(reason(found.operator, found.rationale), width=_WHY)
        speedup = f"{times(found.speedup)} (at least {times(found.low)}, {found.mode} mode)"
        self._line(f"new best {speedup}  {found.candidate[:8]}  {found.operator}: {why}", style=STRONG)

    def tick(self, snapshot: Snapshot) -> None:
        """Print a line of progress, at most one in ten seconds; of a search elsewhere also the first time.

        Nothing is said again of one that has come to a halt.
        """
        session = self._session
        now = session.clock()
        first = self._said is None and bool(snapshot.state)
        if not first and (now - self._last_progress < PLAIN_EVERY_S or (snapshot.halted and snapshot == self._said)):
            return
        self._last_progress, self._said = now, snapshot
        if not snapshot.results:
            self._line(snapshot.halted or "nothing judged yet", style=DIM)
            return
        self._line(", ".join(part for part in self._progress(snapshot) if part), style=DIM)

    def _progress(self, snapshot: Snapshot) -> Iterator[str]:
        yield f"{snapshot.progress.evaluations} judged"
        yield f"{snapshot.correct / snapshot.results:.0%} right"
        yield rate(self._session.rate()) if not snapshot.halted else ""
        yield f"best {times(snapshot.over_seed)} seed" if snapshot.over_seed is not None else ""
        for name, value in snapshot.baselines.items():
            yield f"{times(value)} {one_line(name)} ({snapshot.mode})"
        left = self._session.left_s(snapshot)
        yield f"about {duration(left)} left" if left is not None else ""
        yield snapshot.halted

    def __enter__(self) -> Self:
        """Say what begins."""
        self._line(self._title)
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing is left to clear away."""

    def _line(self, text: str, *, style: str = "") -> None:
        if not self.gone:
            line = f"{duration(self._session.clock() - self._began):>12}  {one_line(text)}"
            try:
                self._console.print(line, style=style, soft_wrap=True)
            except OSError:
                self.gone = True


def make_view(console: Console, *, title: str) -> SearchView:
    """Return the view that fits where the output goes.

    Colours may be asked for where there is no terminal, as in the log of a CI, and a dumb one cannot move its cursor:
    both get single lines.
    """
    live = console.is_interactive and not console.is_dumb_terminal and console.file.isatty()
    return LiveView(console, title=title) if live else PlainView(console, title=title)

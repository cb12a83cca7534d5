"""The view of a running search: a live panel on a terminal, single lines anywhere else."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live

from evokernel.cli.pace import Pace
from evokernel.cli.panel import Improvement, PanelState, panel
from evokernel.cli.snapshot import Snapshot
from evokernel.cli.text import DIM, STRONG, WARN, duration, one_line, rate, reason, times
from evokernel.evaluation import combined_speedup
from evokernel.protocols import Event, Judged, Note, Proposed

IMPROVEMENTS = 5
PLAIN_EVERY_S = 10.0
Clock = Callable[[], float]


_WHY = 160
"""The longest reason in a line, in characters; models give long ones."""


class View(Protocol):
    """Hears what happens, and draws when it is told to. A context manager."""

    def hear(self, event: Event) -> None:
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
class Session:
    """What one session has heard so far; both views fold events into it."""

    clock: Clock
    began: float
    pace: Pace = field(default_factory=Pace)
    in_flight: int = 0
    note: Note = field(default_factory=lambda: Note(""))
    improvements: deque[Improvement] = field(default_factory=lambda: deque(maxlen=IMPROVEMENTS))

    def hear(self, event: Event) -> None:
        """Fold in one event."""
        if isinstance(event, Proposed):
            self.in_flight += 1
        elif isinstance(event, Judged):
            self.in_flight = max(0, self.in_flight - 1)
            self.pace.result(self.clock(), valid=event.evaluation.ok)
            if event.improved:
                self.improvements.append(improvement(event))
        else:
            self.note = event

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return self.clock() - self.began

    def rate(self) -> float:
        """Results per second over the last minute."""
        return self.pace.per_second(self.clock(), since=self.began)


def improvement(event: Judged) -> Improvement:
    """Return what there is to say of a new best kernel."""
    proposal = event.proposal
    return Improvement(
        candidate=proposal.candidate.id,
        speedup=combined_speedup(event.evaluation.timings).value,
        operator=proposal.operator,
        island=proposal.island,
        rationale=proposal.rationale,
        mode=event.evaluation.key.mode.value,
    )


class LiveView:
    """A panel that redraws itself in place."""

    def __init__(self, console: Console, *, title: str, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._session = Session(clock, clock())
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self.gone = False

    def hear(self, event: Event) -> None:
        """Take note of one event; warnings stay on the terminal above the panel."""
        self._session.hear(event)
        if isinstance(event, Note) and event.warning and not self.gone:
            with self._watching():
                self._console.print(one_line(event.text), style=WARN)

    def tick(self, snapshot: Snapshot) -> None:
        """Redraw."""
        if self.gone:
            return
        session = self._session
        state = PanelState(
            title=self._title,
            snapshot=snapshot,
            elapsed_s=session.elapsed_s,
            left_s=session.pace.left_s(session.clock(), snapshot.remaining),
            rate=session.rate(),
            in_flight=session.in_flight,
            valid_share=session.pace.valid_share(),
            improvements=tuple(reversed(session.improvements)),
            note=session.note,
        )
        drawn = panel(state, width=self._console.width, height=self._console.height)
        with self._watching():
            self._live.update(drawn, refresh=True)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.gone = True

    def __enter__(self) -> Self:
        """Begin to show."""
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        """Remove the panel and show the cursor again."""
        with suppress(OSError):
            self._live.stop()


class PlainView:
    """Single lines: improvements and notes as they come, progress now and then."""

    def __init__(self, console: Console, *, title: str, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._session = Session(clock, clock())
        self._last_progress = clock()
        self.gone = False

    def hear(self, event: Event) -> None:
        """Print an improvement or a note."""
        self._session.hear(event)
        if isinstance(event, Note):
            self._line(f"warning: {event.text}" if event.warning else event.text, style=WARN if event.warning else DIM)
        elif isinstance(event, Judged) and event.improved:
            found = improvement(event)
            why = one_line(reason(found.operator, found.rationale), width=_WHY)
            low = combined_speedup(event.evaluation.timings).low  # what decides who is best
            speedup = f"{times(found.speedup)} (at least {times(low)}, {found.mode} mode)"
            self._line(f"new best {speedup}  {found.candidate[:8]}  {found.operator}: {why}", style=STRONG)

    def tick(self, snapshot: Snapshot) -> None:
        """Print a line of progress, at most one in ten seconds."""
        session = self._session
        now = session.clock()
        if now - self._last_progress < PLAIN_EVERY_S:
            return
        self._last_progress = now
        done = snapshot.progress.evaluations
        if not done:
            self._line("nothing judged yet", style=DIM)
            return
        parts = [f"{done} judged", f"{snapshot.correct / done:.0%} right", rate(session.rate())]
        if snapshot.over_seed is not None:
            parts.append(f"best {times(snapshot.over_seed)} seed")
        parts += [f"{times(value)} {one_line(name)} ({snapshot.mode})" for name, value in snapshot.baselines.items()]
        left = session.pace.left_s(now, snapshot.remaining)
        parts.append(f"about {duration(left)} left" if left is not None else "")
        self._line(", ".join(part for part in parts if part), style=DIM)

    def __enter__(self) -> Self:
        """Say what begins."""
        self._line(self._title)
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing is left to clear away."""

    def _line(self, text: str, *, style: str = "") -> None:
        if not self.gone:
            line = f"{duration(self._session.elapsed_s):>12}  {one_line(text)}"
            try:
                self._console.print(line, style=style, soft_wrap=True)
            except OSError:
                self.gone = True


def make_view(console: Console, *, title: str) -> View:
    """Return the view that fits where the output goes."""
    return LiveView(console, title=title) if console.is_terminal else PlainView(console, title=title)

"""One session of a search on the command line: view and signals.

The first SIGINT, SIGTERM or SIGHUP finishes what is in flight; the second stops at once. A reader of the output that
goes away counts as a SIGPIPE. Nothing is lost either way: a result is stored before it is reported.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evokernel.cli.display.live import SearchView
from evokernel.cli.display.snapshot import Snapshot
from evokernel.records.events import Notice

if TYPE_CHECKING:
    from evokernel.engine.search import Search  # imports the islands

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REDRAW_S = 0.5
GRACE_S = 3.0
SIGNAL_EXIT = 128


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """End of a session."""

    reason: str
    """In words."""
    signal: int = 0
    """Number of the signal that asked for it; 0 for none."""
    cut_off: bool = False
    """True where work in flight was cancelled."""

    @property
    def hung_up(self) -> bool:
        """True where the terminal or the reader of the output has gone."""
        return self.signal in (signal.SIGHUP, signal.SIGPIPE)

    @property
    def exit_code(self) -> int:
        """0 when the search ended by itself, 128 + the number of the signal otherwise."""
        return SIGNAL_EXIT + self.signal if self.signal else 0


class _Signals:
    def __init__(self, engine: "Search", view: SearchView, work: "asyncio.Task[str]") -> None:
        self._engine = engine
        self._view = view
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.first = 0
        self.cut_off = False

    def __enter__(self) -> "_Signals":
        for number in SIGNALS:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: the search is meant to outlive its terminal
            self._loop.add_signal_handler(number, self.caught, number)
        return self

    def __exit__(self, *details: object) -> None:
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)

    def caught(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            self._view.gone = True
        if not self.first:
            self.first = int(number)
            self._engine.stop(f"stopped by {number.name}")
            self._view.hear(Notice(f"{number.name}: finishing what is in flight; once more stops at once"))
        elif not self.cut_off:
            self.cut_off = True
            self._work.cancel()
            # A thread that waits for a compiler cannot be cancelled; the store is safe, so do not wait for it.
            self._loop.call_later(GRACE_S, self._leave, SIGNAL_EXIT + int(number))

    def _leave(self, code: int) -> None:
        self._view.__exit__(None, None, None)  # give the terminal its cursor back
        os._exit(code)


def discard_stdout() -> None:
    """Redirect stdout to nowhere: its reader has gone, and Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


async def run_session(engine: "Search", view: SearchView, take_snapshot: Callable[[], Snapshot]) -> SessionEnd:
    """Run the engine to its end while the view is kept up to date. Raises `EvokernelError` from the engine.

    Args:
        view: already entered.
    """
    work = asyncio.create_task(engine.run())
    with _Signals(engine, view, work) as signals:
        try:
            while not work.done():
                await asyncio.wait([work], timeout=REDRAW_S)
                view.tick(take_snapshot())
                if view.gone and not signals.first:
                    signals.caught(signal.SIGPIPE)
        finally:  # also when the view fails: the engine must have ended before the store is closed
            if not work.done():
                work.cancel()
                await asyncio.wait([work])
        if work.cancelled():
            return SessionEnd("stopped at once", signals.first, cut_off=True)
        return SessionEnd(work.result(), signals.first, signals.cut_off)

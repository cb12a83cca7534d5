"""`evokernel watch`: the view of a search that goes on elsewhere."""

import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Self

import click
from rich.console import Console

from archive.follower import FollowedResult
from evokernel.cli.display.following import StoreFollower, StoreLook
from evokernel.cli.display.live import JudgedLine, SearchView, make_view
from evokernel.cli.display.text import one_line, stdout, times
from evokernel.cli.display.watch_json import ChangeLines
from evokernel.cli.locate import note_opened, store_path
from evokernel.cli.options import store_argument
from evokernel.cli.session import SIGNAL_EXIT, SIGNALS, discard_stdout
from evokernel.errors import StoreError
from evokernel.report.status import RunState

LOOK_S = 0.5
OVER = (RunState.STOPPED.value, RunState.KILLED.value)


@click.command(
    epilog="Exit codes: 0 after Ctrl-C, or with --until-stopped when the search has stopped; 143, 129 ended by "
    "SIGTERM, SIGHUP; 141 the reader of the output went away."
)
@store_argument
@click.option("--until-stopped", is_flag=True, help="End when the search has stopped or was killed.")
@click.option(
    "--json", "as_json", is_flag=True, help="A line of JSON for each change, with the fields of docs/json.md."
)
@click.pass_context
def command(ctx: click.Context, store: Path | None, until_stopped: bool, as_json: bool) -> None:
    """Follow a search that goes on elsewhere: in another terminal or process, or seen through a read-only mount.

    STORE is only read, and need not be there yet; a file that is there and is no sound store is refused. A search
    that was killed or has stopped is waited for: it may go on. On a terminal the view is that of `evolve`; anywhere
    else each new best kernel is a line, and progress one in ten seconds. Ctrl-C ends the view, never the search.
    """
    path = store_path(store)
    note_opened(path)
    shown = ChangeLines(stdout().file, path) if as_json else WatchFrame(stdout(), path)
    following = StoreFollower(path)
    try:
        with _ended_by_signals(), shown:
            look, gone = _first_look(following), False
            while not gone:
                shown.show(look)
                if until_stopped and look.state in OVER:
                    break
                gone = shown.gone or _left_within(LOOK_S)
                look = look if gone else following.look()
    except _Ended as ended:
        if ended.code:
            ctx.exit(ended.code)
    finally:
        following.close()
    if gone:
        discard_stdout()
        ctx.exit(SIGNAL_EXIT + signal.SIGPIPE)
    if not as_json and shown.last is not None:
        click.echo(_last_words(path, shown.last))


def _first_look(following: StoreFollower) -> StoreLook:
    """Look, or raise `StoreError`; it is tried twice, since a search may be making the file."""
    try:
        return following.first_look()
    except StoreError:
        time.sleep(LOOK_S)
        return following.first_look()


class WatchFrame:
    """The view of `evolve`, fed from a store."""

    def __init__(self, console: Console, path: Path) -> None:
        self._console = console
        self._path = path
        self._view: SearchView = make_view(console, title=str(path))
        self.last: StoreLook | None = None

    @property
    def gone(self) -> bool:
        """True once the reader of the output has gone."""
        return self._view.gone

    def show(self, look: StoreLook) -> None:
        """Hand on what is new, and draw."""
        first, self.last = self.last is None, look  # before it is shown: a signal ends with the same last words
        self._view.follow(look.snapshot)
        if first:  # its first line has the time of the run
            self._view.__enter__()
        for seen in look.seen:
            self._view.hear(_result(seen, look))
        for note in look.notes:
            self._view.hear(note)
        self._view.tick(look.snapshot)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self.last is not None:
            self._view.__exit__(*details)


class _Ended(Exception):
    """A signal that ends the view, with the exit code that it means."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 0 if number == signal.SIGINT else SIGNAL_EXIT + number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn signals into `_Ended`, so that the terminal gets its cursor back and the file is closed."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in before:  # a second signal must not cut the end short
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _left_within(seconds: float) -> bool:
    """Wait; say whether the reader of the output has gone meanwhile, since hours may pass without a write."""
    try:
        output = sys.stdout.fileno()
    except OSError:  # no file at all, as in tests
        time.sleep(seconds)
        return False
    poll = select.poll()
    poll.register(output, 0)  # hang-ups and errors are reported in any case
    return bool(poll.poll(seconds * 1000))


def _result(seen: FollowedResult, look: StoreLook) -> JudgedLine:
    age_s = max(0.0, look.last_at - seen.result.at) if look.old else 0.0
    return JudgedLine(seen.result.measured.fitness is not None, seen.change, age_s=age_s, old=look.old)


def _last_words(path: Path, look: StoreLook) -> str:
    snapshot = look.snapshot
    parts = [f"{path}: {look.state}", f"{snapshot.progress.evaluations} judged"]
    if snapshot.over_seed is not None:
        parts.append(f"best {times(snapshot.over_seed)} seed")
    parts += [f"{times(value)} {one_line(name)} ({snapshot.mode} mode)" for name, value in snapshot.baselines.items()]
    return ", ".join(parts)

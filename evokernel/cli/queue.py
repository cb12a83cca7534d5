"""`evokernel queue`: searches that share hours and dollars, one after the other."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from archive.file.lock import EngineLock
from archive.store import Store
from evokernel.cli.display.tables import dollars as dollars_text
from evokernel.cli.display.tables import put, table
from evokernel.cli.display.text import DIM, WARN, clean, duration, one_line, stdout, times
from evokernel.cli.locate import store_of
from evokernel.cli.notifier import tell_end
from evokernel.cli.options import FILE, POSITIVE
from evokernel.cli.session import SIGNAL_EXIT, SIGNALS
from evokernel.config.load import load_config
from evokernel.errors import ConfigError, StoreError
from evokernel.protocols import Listener
from evokernel.queue.choice import seconds_left
from evokernel.queue.command import CLOSING_S
from evokernel.queue.file import QueueFile
from evokernel.queue.records import EntryState, QueueEntry, QueueNight, QueueSlice, SharedBudget, SharedUsage
from evokernel.queue.session import identity_of, is_running
from evokernel.records.events import Event, Notice
from evokernel.report.best import find_best
from evokernel.report.verdicts import MeasurementKind

QUEUE = Path("runs/queue.sqlite")
REASON_WIDTH = 90
SEARCH = "in the search"
UNPROVED = "best kernels that were not measured anew, which the next session or `evokernel export` does, of entries"

queue_option = click.option(
    "--queue", "path", type=FILE, default=QUEUE, show_default=True, help="The file of the queue."
)
grace_option = click.option(
    "--grace",
    "grace_s",
    type=click.IntRange(min=5, max=3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time that a session has to finish what is in flight, when its slice ends or the queue is stopped.",
)
numbers_argument = click.argument("numbers", type=int, nargs=-1, required=True, metavar="ENTRY...")


class NextMoment(click.ParamType[float]):
    """A moment to come; becomes s since 1970."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the moment. Ends the command where it is none, or has passed."""
        if isinstance(value, float):
            return value
        try:
            moment = next_moment(str(value).strip(), datetime.now())
        except ValueError:
            self.fail(f"{value!r}: expected a time of the clock (07:00) or a date (2026-11-26T07:00)", param, ctx)
        if moment <= time.time():
            self.fail(f"{value!r} has passed", param, ctx)
        return moment


def next_moment(text: str, now: datetime) -> float:
    """Return the next time of the clock, or a date, in s since 1970. Raises `ValueError`."""
    try:
        clock = datetime.strptime(text, "%H:%M")
    except ValueError:
        return datetime.fromisoformat(text).timestamp()
    today = now.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
    return (today if today > now else today + timedelta(days=1)).timestamp()


@click.group(epilog="Exit codes: 0 done; 2 an error, said on stderr; after a signal to `queue run` 130, 143 or 129.")
def command() -> None:
    """Give searches shares of one night: hours, dollars, a time of the clock.

    `add` puts configs into the queue, `run` works it off.
    """


@command.command()
@click.argument("configs", nargs=-1, required=True, type=FILE)
@click.option("--until", type=NextMoment(), metavar="07:00", help="The end by the clock: the next 07:00, or a date.")
@click.option("--hours", type=POSITIVE, help="Hours of sessions, for all CONFIGS together.")
@click.option("--gpu-hours", type=POSITIVE, help="The same, times the GPUs that a session uses.")
@click.option("--dollars", type=POSITIVE, help="The most that models may cost, for all CONFIGS together.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Replace one setting in each of CONFIGS.")
@queue_option
def add(
    configs: tuple[Path, ...],
    until: float | None,
    hours: float | None,
    gpu_hours: float | None,
    dollars: float | None,
    settings: tuple[str, ...],
    path: Path,
) -> None:
    """Add searches that share one budget; each keeps the limits of its own CONFIG, too.

    Each gets a start; then time goes to those that still gain, as measured.
    """
    from evokernel.engine.name_check import unknown_names

    searches, mistakes = [], []
    for config in configs:
        try:
            store = store_of(config, load_config(config, overrides=settings, look_up=unknown_names))
        except ConfigError as error:  # those of the other configs are told, too
            mistakes.append(str(error))
        else:
            searches.append((config.resolve(), store.absolute(), settings))
    if mistakes:
        raise ConfigError("\n".join([*mistakes, "nothing was added"]))
    with QueueFile.open(path, create=True) as queue:
        night = queue.add(searches, SharedBudget(until, hours, gpu_hours, dollars))
        numbers = ", ".join(str(entry.id) for entry in queue.entries(night.id))
    click.echo(f"night {night.id}: {_limits(night)}; entries {numbers}. Start it: evokernel queue run")
    left = seconds_left(night.budget, SharedUsage(), added=night.added, now=time.time())
    if left is not None and left / len(searches) < 2 * CLOSING_S:
        click.echo(
            f"{duration(left / len(searches))} for each is short: to measure a best kernel anew takes minutes, "
            "so some may stay as the search measured them",
            err=True,
        )


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Nights that have ended, too, and not only the newest one.")
@queue_option
def list_entries(everything: bool, path: Path) -> None:
    """Show the entries and what they used and found."""
    with QueueFile.open(path) as queue:
        nights = queue.nights()
        for night in nights if everything else [each for each in nights if not each.ended or each is nights[-1]]:
            use = queue.use(night.id)
            spent = f"used {duration(use.seconds)}, {dollars_text(use.dollars)}"
            ended = f"; ended: {night.ended}" if night.ended else ""
            made = table(
                "entry", "config", "state", "time", "cost", "best", "measured", "reason", right=(0, 3, 4, 5), drop=(4,)
            )
            slices, gone = {each.entry: each for each in queue.open_slices()}, _runner_is_gone(path)
            unproved = []
            for entry in queue.entries(night.id):
                row = _row(queue, entry, slices.get(entry.id), gone=gone)
                unproved += [str(entry.id)] if row[6] == SEARCH and entry.state is EntryState.DONE else []
                made.add_row(*row)
            head = Text(f"night {night.id}: {_limits(night)}; {spent}{ended}", style=DIM)
            put(stdout(), head, made, Text(f"{UNPROVED}: {', '.join(unproved)}", style=WARN) if unproved else None)


def _runner_is_gone(path: Path) -> bool:
    """Say whether the process that last worked the queue off has ended."""
    try:
        return not identity_of(int(path.with_name(f"{path.name}.lock").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return True


def _row(queue: QueueFile, entry: QueueEntry, begun: QueueSlice | None, *, gone: bool) -> list[str]:
    use, speedup, measured = queue.use_of(entry.id), "-", ""
    with suppress(StoreError), Store.open(entry.store, write=False) as store:
        if (best := find_best(store)) is not None:
            speedup = times(best.speedup.value)
            measured = "anew" if best.kind is MeasurementKind.FINAL else "" if best.is_seed else SEARCH
    state, reason = entry.state.value, entry.reason
    if begun is not None and begun.process and not is_running(begun.process):
        reason = "its slice was cut short: `evokernel queue run` counts it, and goes on"
    elif begun is not None:
        state = "ending" if gone else "in a slice"
        reason = "the queue was killed; its session finishes what is in flight" if gone else reason
    reason = one_line(reason, width=REASON_WIDTH)
    name = clean(entry.config.stem)
    return [str(entry.id), name, state, duration(use.seconds), dollars_text(use.dollars), speedup, measured, reason]


def _limits(night: QueueNight) -> str:
    budget, limits = night.budget, list[str]()
    if budget.until is not None:
        limits.append(f"until {datetime.fromtimestamp(budget.until):%Y-%m-%d %H:%M}")
    limits += [f"{budget.hours:g} h"] if budget.hours is not None else []
    limits += [f"{budget.gpu_hours:g} GPU-hours"] if budget.gpu_hours is not None else []
    limits += [dollars_text(budget.dollars)] if budget.dollars is not None else []
    return ", ".join(limits) or "no limits but the configs'"


def _changing(state: EntryState, *, where: Sequence[EntryState]) -> Callable[[tuple[int, ...], Path], None]:
    def change(numbers: tuple[int, ...], path: Path) -> None:
        with QueueFile.open(path) as queue:
            ended = {night.id for night in queue.nights() if night.ended}
            entries = [queue.entry(number) for number in numbers]
            for entry in entries:
                if entry.state not in where:
                    raise ConfigError(f"entry {entry.id} is {entry.state}; nothing was changed")
                if state is EntryState.WAITING and entry.night in ended:
                    raise ConfigError(f"the night of entry {entry.id} has ended: add {entry.config} again")
            for entry in entries:
                queue.set_state(entry.id, state)

    return change


@command.command()
@numbers_argument
@queue_option
def pause(numbers: tuple[int, ...], path: Path) -> None:
    """Keep entries back; one that runs is stopped in order."""
    _changing(EntryState.PAUSED, where=[EntryState.WAITING])(numbers, path)


@command.command()
@numbers_argument
@queue_option
def resume(numbers: tuple[int, ...], path: Path) -> None:
    """Let entries run again: paused ones, and failed ones whose config was put right."""
    _changing(EntryState.WAITING, where=[EntryState.PAUSED, EntryState.FAILED, EntryState.WAITING])(numbers, path)


@command.command()
@numbers_argument
@queue_option
def remove(numbers: tuple[int, ...], path: Path) -> None:
    """Take entries out; one that runs is stopped in order. Their stores stay."""
    states = [state for state in EntryState if state is not EntryState.REMOVED]
    _changing(EntryState.REMOVED, where=states)(numbers, path)


@command.command(
    epilog="Exit codes: 0 nothing is left to run; 2 an error, said on stderr; 130, 143, 129 stopped by SIGINT, "
    "SIGTERM, SIGHUP: the session is ended in order, a second signal ends it at once. The same command goes on."
)
@click.option("--wait", is_flag=True, help="Stay, and take up what is added later.")
@grace_option
@queue_option
@click.pass_context
def run(context: click.Context, wait: bool, grace_s: int, path: Path) -> None:
    """Work the queue off, one session at a time, each as `evokernel evolve` in a process of its own.

    A fault of the machine lets an entry rest, and others go on; only a fault of its config ends an entry.
    """
    from evokernel.queue.runner import QueueRunner

    with QueueFile.open(path, create=wait) as queue:
        lock = EngineLock(path)
        try:
            runner = QueueRunner(queue, say=_say, wait=wait, grace_s=grace_s, ended=_tell_end)
            caught = list[int]()

            def stop(number: int, frame: FrameType | None) -> None:
                caught.append(number)
                runner.stop()

            for number in SIGNALS:
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, stop)
            _say(runner.run())
        finally:
            lock.release()
    context.exit(SIGNAL_EXIT + caught[0] if caught else 0)


def _tell_end(entry: QueueEntry, reason: str) -> None:
    """Send the message on the end of a night to those whom the config of an entry names."""
    try:
        tell_end(load_config(entry.config, overrides=entry.settings), entry.store, reason, warn=_Spoken())
    except ConfigError as error:
        _say(str(error))


class _Spoken(Listener):
    """A listener that says what could not be delivered."""

    def hear(self, event: Event) -> None:
        """Say a notice."""
        if isinstance(event, Notice):
            _say(event.text)


def _say(text: str) -> None:
    with suppress(OSError):  # a reader that has gone, or a full disk, must not end a night
        click.echo(f"{datetime.now():%Y-%m-%d %H:%M:%S} {clean(text)}")

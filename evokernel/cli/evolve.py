"""`evokernel evolve`: start a search, or go on with it."""

import asyncio
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click
from rich.text import Text

from archive.file.lock import EngineLock
from archive.store import Store, set_aside
from evokernel.cli.completion import complete_stores
from evokernel.cli.delivery import Delivery
from evokernel.cli.display.live import make_view
from evokernel.cli.display.snapshot import NOTHING, SnapshotTaker
from evokernel.cli.display.tables import best_kernel_tables, put, sheet, to_take
from evokernel.cli.display.text import DIM, duration, stdout
from evokernel.cli.group import Refused
from evokernel.cli.locate import store_of
from evokernel.cli.model_trial import model_options, with_models
from evokernel.cli.notifier import Notifier
from evokernel.cli.options import FILE, PATH, POSITIVE
from evokernel.cli.session import SessionEnd, discard_stdout, run_session
from evokernel.config.load import load_config
from evokernel.config.model_choice import ModelChoice
from evokernel.config.notify import NotifyConfig
from evokernel.config.run import RunConfig
from evokernel.config.session_budget import SESSION_LIMIT, SessionBudget, session_budget
from evokernel.errors import TRY_AGAIN_EXIT, ConfigError, EvokernelError, may_pass
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.device.cores import busy_machine
from evokernel.evaluate.device.device_class import likely_class, this_machine
from evokernel.records.events import Notice
from evokernel.records.run import NOTHING_LEFT
from evokernel.report.best import BestKernel, find_best
from evokernel.report.status import RunFacts, run_facts, task_name

_UNITS = {"s": 1 / 3600, "min": 1 / 60, "m": 1 / 60, "h": 1.0}
"""Units of a time in hours."""
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|m|h)")


class _TryAgain(Refused):
    exit_code = TRY_AGAIN_EXIT


@click.command(
    epilog="Exit codes: 0 a limit of the budget was reached or nothing is left to try; 2 an error, said on stderr; "
    "75 an error that may pass (a full disk, a store in use, a device that fails): try again later; "
    "130, 143, 129 stopped by SIGINT, SIGTERM, SIGHUP; "
    "141 the reader of the output went away. After a signal what is in flight is finished first, a second "
    "signal stops at once. Nothing finished is ever lost: run the same command to go on."
)
@click.argument("config", type=FILE)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one setting, e.g. threads=2.")
@click.option(
    "--budget", metavar="LIMITS", help="In place of the config's budget, e.g. evaluations=200,hours=1 (or 90min)."
)
@click.option("--fresh", is_flag=True, help="Move the store aside under a dated name and start over.")
@click.option(
    "-s", "--store", type=PATH, shell_complete=complete_stores, help="The store to write, in place of the config's."
)
@click.option("--on-end", metavar="CMD", help="Run this at the end, 15 s at most; it gets a message as JSON.")
@click.option(
    "--session-hours",
    type=POSITIVE,
    help="End this session once all sessions of the run have lasted so many hours together, and leave the budget as it "
    "is: the next session goes on. `evokernel queue` uses it to give each search a slice of the night.",
)
@click.option(
    "--session-dollars",
    type=POSITIVE,
    help="The same by the dollars of all sessions together.",
)
@model_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    budget: str | None,
    fresh: bool,
    store: Path | None,
    on_end: str | None,
    choice: ModelChoice,
    **of_session: float | None,
) -> None:
    """Search for faster kernels as CONFIG says; the same command goes on where it stopped.

    The budget counts over all sessions: to go on after it is used, name a larger one.
    """
    settings = _config_of(config, overrides, budget)
    if store is not None:
        settings = settings.model_copy(update={"store": str(store)})
    path = Path(settings.store) if fresh else store_of(config, settings)
    receivers = [*settings.notify, *([NotifyConfig(command=_words(on_end), on=("end",))] if on_end is not None else [])]
    deliveries = [Delivery(each) for each in receivers]
    try:
        stored = None if fresh else _stored_config(path)
        cap, dollars = choice.dollars or settings.budget.dollars, of_session["session_dollars"]
        settings = with_models(settings, choice, stored=stored, session_dollars=dollars)
        session = session_budget(settings.budget, hours=of_session["session_hours"], dollars=dollars, cap=cap)
        if fresh:
            _set_aside(path, settings)
        ended = asyncio.run(_evolve(settings, path, deliveries, session=session))
    except EvokernelError as error:
        if not may_pass(error):
            raise
        raise _TryAgain(str(error)) from error
    ctx.exit(ended.exit_code)


def _set_aside(path: Path, settings: RunConfig) -> None:
    """Move the store aside, once it is sure that the config can be used."""
    if path.exists() and settings.evaluation.hosts == "local":  # a cluster is joined once
        EngineLock(path).release()  # where another engine is at work, that is said at once
        from evokernel.engine.assemble import assemble

        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "trial.db", write=True) as store:
            assemble(settings, store)
    if (moved := set_aside(path)) is not None:
        click.echo(f"the old store is now {moved}")


def _stored_config(path: Path) -> str | None:
    """Return the config of a store's last session, as YAML; None where there is none, or where none can be read.

    The search opens the store next, and says what is wrong with it.
    """
    try:
        if not path.exists():
            return None
        with Store.open(path, write=False) as store:
            return store.meta("config")
    except (OSError, EvokernelError):
        return None


def budget_override(text: str) -> str:
    """Return `evaluations=200,hours=1` as a YAML mapping; hours may have a unit, as in `hours=90min`.

    Raises `ConfigError` if a part is not name=number.
    """
    limits = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        if not (name and value):
            raise ConfigError(f"--budget {text!r}: expected name=number,... for example evaluations=200,hours=90min")
        timed = _TIME.fullmatch(value) if name == "hours" else None
        limits[name] = value if timed is None else f"{float(timed[1]) * _UNITS[timed[2]]:g}"
    return "{" + ", ".join(f"{name}: {value}" for name, value in limits.items()) + "}"


def _config_of(config: Path, overrides: Sequence[str], budget: str | None) -> RunConfig:
    """Return the config with what the command line replaces. Raises `ConfigError`."""
    from evokernel.engine.name_check import unknown_names

    limits = [f"budget={budget_override(budget)}"] if budget else []
    try:
        return load_config(config, overrides=[*overrides, *limits], look_up=unknown_names)
    except ConfigError as error:  # it is written as a --set
        raise ConfigError(str(error).replace("--set budget: ", "--budget: ") if budget else str(error)) from None


def _words(command: str) -> tuple[str, ...]:
    """Return a command in words. Raises `ConfigError`."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--on-end {command!r}: {error}") from None
    if not words:
        raise ConfigError("--on-end: expected a command, for example --on-end 'my-script --flag'")
    return tuple(words)


async def _evolve(
    settings: RunConfig, path: Path, deliveries: Sequence[Delivery], *, session: SessionBudget
) -> SessionEnd:
    view = make_view(stdout(), title=f"{task_name(settings.task)}, {path}")
    empty = path.is_file() and not path.stat().st_size
    with Store.open(path, write=True) as store:
        with view:
            if empty:
                view.hear(Notice(f"{path} was empty, 0 bytes: a new run begins in it", warning=True))
            view.hear(Notice("loading the task and its tool chain"))
            busy = busy_machine(os.getloadavg()[0], len(os.sched_getaffinity(0)))
            if busy and settings.evaluation.hosts == "local":
                view.hear(Notice(busy, warning=True))
            view.tick(NOTHING)
            about = {"task": Path(settings.task).stem, "store": str(path)}
            notifier = Notifier(deliveries, about=about, budget=settings.budget, warn=view)
            with notifier.until_the_end(), _judge_host(settings) as host:
                from evokernel.engine.assemble import assemble  # takes a second, which the view explains

                engine = assemble(settings, store, listeners=(view, notifier), session=session, host=host)
                watch = SnapshotTaker(engine, store)
                notifier.watch(watch.snapshot)
                ended = await run_session(engine, view, watch.snapshot)
                notifier.reason, notifier.cut_off = ended.reason, ended.cut_off
        best, run, spent = find_best(store), run_facts(store), store.spent()
    judged = engine.state.account.results
    summary = f"{ended.reason}; {judged} judged in {duration(spent.seconds)} over all sessions"
    if ended.hung_up:
        discard_stdout()
    else:
        show_end(best, run, summary=summary, go_on=how_to_go_on(settings, ended))
    return ended


def _judge_host(settings: RunConfig) -> AbstractContextManager[JudgeHostClient | None]:
    """Begin to import what judges need, while this process loads the task; nothing where others judge."""
    if settings.evaluation.hosts != "local":
        return nullcontext()
    return JudgeHostClient(likely_class(settings, this_machine()))


def how_to_go_on(settings: RunConfig, ended: SessionEnd) -> str:
    """Say how the search goes on."""
    if ended.signal or ended.reason.startswith(SESSION_LIMIT):
        return "the same command again"
    if "`evokernel ask`" in ended.reason:
        return "evokernel ask, which writes the prompts that wait"
    if ended.reason != NOTHING_LEFT:
        return "the same command again and a larger budget, e.g. --budget evaluations=1000"
    others = "another seed (evokernel inject), or other operators"
    return others if settings.models else f"ask a model, too: the same command with --model openai/gpt-5; or {others}"


def show_end(best: BestKernel | None, run: RunFacts, *, summary: str, go_on: str) -> None:
    """Print the end of a session: the best kernel, its measurements, and the next commands."""
    console = stdout()
    if best is None:
        put(
            console,
            Text(summary),
            Text(f"no correct kernel was found: evokernel status {run.path} says what failed", style=DIM),
        )
        return
    put(
        console,
        Text(summary),
        *best_kernel_tables(best, run),
        sheet(
            {
                "best": f"evokernel best {run.path}",
                "how": f"evokernel lineage {run.path}",
                "take": to_take(best, run),
                "go on": go_on,
            }
        ),
    )

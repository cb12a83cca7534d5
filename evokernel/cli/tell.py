"""`evokernel tell`: answers to the prompts of `evokernel ask`, handed to their run and judged."""

import asyncio
from pathlib import Path

import click
from rich.text import Text

from archive.inbox import waiting
from archive.store import Store
from evokernel.cli.ask import config_of
from evokernel.cli.display.live import make_view
from evokernel.cli.display.snapshot import NOTHING, SnapshotTaker
from evokernel.cli.display.tables import put, speedup_or_dash, table
from evokernel.cli.display.text import BAD, DIM, GOOD, clean, one_line, stderr, stdout
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.inbox import author
from evokernel.cli.locate import open_store, store_path
from evokernel.cli.options import takes_store
from evokernel.cli.session import SessionEnd, discard_stdout, run_session
from evokernel.config.run import RunConfig
from evokernel.errors import StoreLocked
from evokernel.offline.answers import AnswerFate, TellReport, fates, tell
from evokernel.records.events import Notice
from evokernel.report.status import task_name

REFUSED_EXIT = 1
_WIDTH = 160


@click.command(
    epilog="Exit codes: 0 every answer there is was handed in; 1 some file is no answer, said on stderr; 2 an error; "
    "130, 143, 129 stopped by SIGINT, SIGTERM, SIGHUP. What was handed in stays, and the next engine goes on with it."
)
@takes_store(folder="DIR")
@click.option("--model", default="", metavar="NAME", help="Who has answered; kept in the lineage.")
@click.option("--queue", is_flag=True, help="Only hand them in; the next engine judges them.")
@click.pass_context
def command(ctx: click.Context, store: Path | None, folder: str, model: str, queue: bool) -> None:
    """Hand the answers in DIR to their run and judge what comes of them.

    Answers that were told before are left alone, so the same folder may be told again when there are more. What is
    judged here counts as in any search, and asks for nothing else; where a search is at work on the store, it takes
    the answers in.
    """
    place = store or store_path(None)
    path, given = store_path(place), config_of(place)
    settings, seq = _settings(path, given)
    told = tell(path, Path(folder), config=settings, model=model, author=author())
    for name, why in told.refused.items():
        stderr().print(clean(f"{name}: {why}"))
    click.echo(_summary(told))
    exit_code = REFUSED_EXIT if told.refused else 0
    if not queue and (told.entries or _waiting(path)):
        try:
            ended = asyncio.run(_judge(settings, path))
        except StoreLocked as error:
            click.echo(clean(f"{error.args[0].split(';')[0]}, and takes the answers in"))
            ctx.exit(exit_code)
        if ended.hung_up:
            discard_stdout()
            ctx.exit(ended.exit_code)
        exit_code = ended.exit_code or exit_code
    elif queue and told.entries:
        click.echo("the next `evokernel evolve` or `evokernel tell` judges them")
    if told.entries and not queue:
        _show(path, told, after=seq)
    ctx.exit(exit_code)


def _settings(path: Path, given: RunConfig | None) -> tuple[RunConfig, int]:
    """Return the config to judge with, and the seq the run has now."""
    from evokernel.offline.prompts import run_config  # takes a second: it imports the engine

    with open_store(path) as store:
        return run_config(store, given), store.last_seq()


def _summary(told: TellReport) -> str:
    parts = [f"{len(told.entries)} handed in"]
    parts += [f"{len(told.before)} told before"] if told.before else []
    parts += [f"{len(told.open)} without an answer"] if told.open else []
    parts += [f"{len(told.refused)} that cannot be read"] if told.refused else []
    return "answers: " + ", ".join(parts)


def _waiting(path: Path) -> bool:
    """Say whether earlier answers or sources are not judged yet."""
    with open_store(path) as store:
        untaken = waiting(store.database, "answer", "source")
        return bool(untaken or store.open_leases() or store.calls.interrupted())


async def _judge(settings: RunConfig, path: Path) -> SessionEnd:
    with Store.open(path, write=True) as store:
        view = make_view(stdout(), title=f"{task_name(settings.task)}, {path}: answers")
        with view:
            view.hear(Notice("loading the task and its tool chain"))
            view.tick(NOTHING)
            from evokernel.engine.assemble import assemble  # takes a second, which the view explains

            engine = assemble(settings, store, listeners=(view,), handed_in_only=True)
            watch = SnapshotTaker(engine, store)
            return await run_session(engine, view, watch.snapshot)


def _show(path: Path, told: TellReport, *, after: int) -> None:
    with open_store(path) as store:
        found = fates(store, list(told.entries.values()), after=after)
    put(stdout(), _fates({name: found[entry] for name, entry in told.entries.items()}))


def _fates(found: dict[str, AnswerFate]) -> WordTable:
    shown = table("answer", "became", "speed-up", "status", "why", right=(2,))
    for name, fate in found.items():
        right = fate.status in ("ok", "noted")
        shown.add_row(
            one_line(name, width=32),
            fate.candidate[:8] or "-",
            speedup_or_dash(fate.speedup.value if fate.speedup else None),
            Text(fate.status, style=GOOD if right else DIM if fate.status == "waits" else BAD),
            Text("" if fate.status == "ok" else one_line(fate.text, width=_WIDTH), style=DIM),
        )
    return shown

"""`evokernel evolve`: start a search, or go on with it."""

import asyncio
import signal
from pathlib import Path

import click
from rich.text import Text

from archive.store import Store, set_aside
from evokernel.cli.display.live import make_view
from evokernel.cli.display.snapshot import NOTHING, SnapshotTaker
from evokernel.cli.display.tables import circumstances, comparison, contender_line, put, sheet, title, workloads
from evokernel.cli.display.text import DIM, duration, stdout
from evokernel.cli.session import SIGNAL_EXIT, SessionEnd, discard_stdout, run_session
from evokernel.config.run import RunConfig, load_config
from evokernel.errors import ConfigError
from evokernel.records.events import Notice
from evokernel.report.best import BestKernel, find_best
from evokernel.report.status import RunFacts, run_facts


@click.command(
    epilog="Exit codes: 0 a limit of the budget was reached or nothing is left to try; 2 an error, said on stderr; "
    "130, 143, 129 stopped by SIGINT, SIGTERM, SIGHUP; "
    "141 the reader of the output went away. After a signal what is in flight is finished first, a second "
    "signal stops at once. Nothing finished is ever lost: run the same command to go on."
)
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one setting, e.g. threads=2.")
@click.option("--budget", metavar="LIMITS", help="In place of the config's budget, e.g. evaluations=200,hours=1.")
@click.option("--fresh", is_flag=True, help="Move the store aside under a dated name and start over.")
@click.option("--store", type=click.Path(path_type=Path), help="The store to write, in place of the config's.")
@click.pass_context
def command(
    ctx: click.Context, config: Path, overrides: tuple[str, ...], budget: str | None, fresh: bool, store: Path | None
) -> None:
    """Search for faster kernels as CONFIG says; the same command goes on where it stopped.

    The budget counts over all sessions: to go on after it is used, name a larger one.
    """
    limits = [f"budget={budget_override(budget)}"] if budget else []
    settings = load_config(config, overrides=[*overrides, *limits])
    if store is not None:
        settings = settings.model_copy(update={"store": str(store)})
    path = Path(settings.store)
    if fresh and (moved := set_aside(path)) is not None:
        click.echo(f"the old store is now {moved}")
    try:
        ended = asyncio.run(_evolve(settings, path))
    except KeyboardInterrupt:  # before the session listens to signals itself
        ctx.exit(SIGNAL_EXIT + signal.SIGINT)
    ctx.exit(ended.exit_code)


def budget_override(text: str) -> str:
    """Return `evaluations=200,hours=1` as a YAML mapping.

    Raises:
        ConfigError: a part is not name=number.
    """
    parts = [part.partition("=") for part in text.split(",")]
    if any(not (name.strip() and sign and value.strip()) for name, sign, value in parts):
        raise ConfigError(f"--budget {text!r}: expected name=number,... for example evaluations=200,hours=1")
    return "{" + ", ".join(f"{name.strip()}: {value.strip()}" for name, _, value in parts) + "}"


async def _evolve(settings: RunConfig, path: Path) -> SessionEnd:
    view = make_view(stdout(), title=f"{settings.task}, {path}")
    with Store.open(path, write=True) as store:
        with view:
            view.hear(Notice("loading the task and its tool chain"))
            view.tick(NOTHING)
            from evokernel.engine.assemble import assemble  # takes a second, which the view explains

            engine = assemble(settings, store, listeners=(view,))
            watch = SnapshotTaker(engine, store)
            ended = await run_session(engine, view, watch.snapshot)
        best, run, spent = find_best(store), run_facts(store), store.spent()
    judged = engine.state.account.results
    summary = f"{ended.reason}; {judged} judged in {duration(spent.seconds)} over all sessions"
    if ended.hung_up:
        discard_stdout()
    else:
        show_end(best, run, summary=summary, interrupted=bool(ended.signal))
    return ended


def show_end(best: BestKernel | None, run: RunFacts, *, summary: str, interrupted: bool) -> None:
    """Print the end of a session: the best kernel, its measurements, and the next commands."""
    console = stdout()
    larger = "" if interrupted else " and a larger budget, e.g. --budget evaluations=1000"
    if best is None:
        put(console, Text(summary), Text("no correct kernel was found", style=DIM))
        return
    put(
        console,
        Text(summary),
        title(best),
        comparison(best),
        workloads(best.evaluation),
        circumstances(best, run),
        contender_line(best),
        sheet(
            {
                "best": f"evokernel best {run.path}",
                "how": f"evokernel lineage --store {run.path}",
                "take": f"evokernel export --store {run.path}",
                "go on": f"the same command again{larger}",
            }
        ),
    )

"""`evokernel evolve-prompts`: a better prompt for one operator, by reflective edits that held-out tasks decide on."""

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archive.store import Store
from evokernel import __version__
from evokernel.cli.display.tables import cost
from evokernel.cli.display.tables import dollars as in_dollars
from evokernel.cli.locate import open_store, store_path
from evokernel.cli.model_trial import model_options
from evokernel.cli.options import PATH
from evokernel.cli.session import SIGNAL_EXIT, SIGNALS
from evokernel.config.model_choice import DEFAULT_CALLS, DEFAULT_DOLLARS, VARIABLE, ModelChoice, chosen_models
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError

if TYPE_CHECKING:
    from evokernel.evolve_prompts.records import PromptTask, PromptText
    from evokernel.evolve_prompts.search import PromptSettings
    from evokernel.evolve_prompts.store import PromptStore


@click.command(
    epilog="Exit codes: 0 decided, or the budget was used before; 2 an error, said on stderr; 130, 143, 129 stopped by "
    "SIGINT, SIGTERM, SIGHUP. The same command goes on, and asks nothing twice."
)
@click.argument("operator")
@click.argument("stores", nargs=-1, required=True, type=PATH, metavar="STORE|CONFIG...")
@click.option(
    "--held-out",
    "held_out",
    multiple=True,
    required=True,
    type=PATH,
    metavar="STORE|CONFIG",
    help="A run whose task decides at the end and is seen by no edit; may be repeated.",
)
@click.option(
    "--start", default="best", show_default=True, help="The kernel of each run to ask about: `best` or `seed`."
)
@click.option("--asks", type=click.IntRange(1, 64), default=4, show_default=True, help="Asks for a text and a task.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=8, show_default=True, help="The most edits.")
@click.option("--calls", type=click.IntRange(1), help="The most calls of models, edits among them.")
@click.option("--prompts", type=PATH, help="A folder of prompts to begin with; else the first run's.")
@click.option("--out", type=PATH, default=Path("prompts"), show_default=True, help="The folder for a winner.")
@click.option("--store", type=PATH, help="The evolution's file. Default: runs/prompts-OPERATOR.db.")
@model_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    operator: str,
    stores: tuple[Path, ...],
    held_out: tuple[Path, ...],
    out: Path,
    store: Path | None,
    choice: ModelChoice,
    **options: Any,
) -> None:
    """Evolve the prompt of OPERATOR on the kernels of finished runs.

    A model reads full traces of the prompt on one task and edits it; the edit is asked a few times for a stored kernel
    of each task, and the kernels are judged as in a search. Texts on the Pareto front over the tasks are edited again.
    At the end the best text and the original meet on held-out tasks. A winner is written to a folder, with its lineage;
    a run uses it only where its config says `prompts:`.
    """
    from evokernel.evolve_prompts.folder import parts_of
    from evokernel.evolve_prompts.search import PromptSettings
    from evokernel.evolve_prompts.store import earlier_prompts
    from operators.llm.templates import SUFFIX, load_templates

    path = store or Path("runs") / f"prompts-{operator}.db"
    earlier = earlier_prompts(path)
    tasks, configs = _tasks(stores, held_out, start=options["start"], known=earlier.kernels)
    folder = str(options["prompts"]) if options["prompts"] is not None else configs[tasks[0].name].prompts
    templates = load_templates(folder)
    if operator not in templates:
        raise ConfigError(f"there is no prompt {operator!r}; there are: {', '.join(templates)}")
    models = _models(configs[tasks[0].name], choice)
    if (out / f"{operator}{SUFFIX}").resolve() == templates[operator].file.resolve():
        raise ConfigError(
            f"{out} holds the prompt to begin with, which a winner would replace; name another with --out"
        )
    settings = PromptSettings(
        original=templates[operator].settings,
        text=templates[operator].file.read_text(encoding="utf-8"),
        parts=parts_of(folder),
        tasks=tuple(tasks),
        configs={name: config.model_copy(update={"models": models.models}) for name, config in configs.items()},
        asks=options["asks"],
        rounds=options["rounds"],
        seed=models.seed,
        calls=options["calls"],
        dollars=choice.dollars,
    )
    ctx.exit(asyncio.run(_until_a_signal(settings, path, out, decided=earlier.decided)))


def _tasks(
    stores: Sequence[Path], held_out: Sequence[Path], *, start: str, known: Mapping[str, str]
) -> "tuple[list[PromptTask], dict[str, RunConfig]]":
    """Return the tasks and the configs of their runs by name; `known` kernels, by their store, stay what they were.

    Raises:
        ConfigError: a store is named twice.
        StoreError: one holds no run, or no right kernel.
    """
    from evokernel.evolve_prompts.records import PromptTask
    from evokernel.offline.prompts import run_config
    from evokernel.report.best import candidate_id

    tasks: list[PromptTask] = []
    configs: dict[str, RunConfig] = {}
    for given in (*stores, *held_out):
        path = store_path(given).resolve()
        if str(path) in (task.store for task in tasks):
            raise ConfigError(f"{given} is named twice: a task serves either to learn from or to decide")
        with open_store(path) as opened:
            config = run_config(opened)
            candidate = known.get(str(path)) or candidate_id(opened, start)
        name = path.stem if path.stem not in configs else f"{path.stem}-{len(tasks) + 1}"
        tasks.append(PromptTask(name, str(path), candidate, len(tasks) >= len(stores)))
        configs[name] = config
    return tasks, configs


def _models(config: RunConfig, choice: ModelChoice) -> RunConfig:
    """Return a config with the models of the options, of `EVOKERNEL_MODEL` or of the first run.

    Raises `ConfigError` if there is none, or an option cannot be used.
    """
    own = () if choice.models else config.models
    config = config.model_copy(update={"models": own})
    found, note = chosen_models(config, ModelChoice(choice.models, choice.api_base), variable=_variable(config))
    if note:
        click.echo(note)
    if not found.models:
        raise ConfigError("no model is named: add --model, for example openai/gpt-5, or evolve the first run with one")
    return found


def _variable(config: RunConfig) -> str:
    return "" if config.models else os.environ.get(VARIABLE, "")


async def _until_a_signal(settings: "PromptSettings", path: Path, out: Path, *, decided: bool) -> int:
    """Evolve, write a winner and say how it ended; return the exit code."""
    work, caught, loop = (
        asyncio.ensure_future(_evolve(settings, path, out, decided=decided)),
        list[int](),
        asyncio.get_running_loop(),
    )

    def stop(number: signal.Signals) -> None:
        caught.append(number)
        work.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        await work
    except asyncio.CancelledError:
        click.echo("stopped; the same command goes on")
        return SIGNAL_EXIT + caught[0]
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return 0


async def _evolve(settings: "PromptSettings", path: Path, out: Path, *, decided: bool) -> None:
    from evokernel.evolve_prompts.search import PromptSearch
    from evokernel.evolve_prompts.store import PromptStore

    if not decided:
        settings = await _capped(settings)
    with Store.open(path, write=True) as opened:
        store = PromptStore(opened, _identity(settings))
        search = PromptSearch(store, settings, say=click.echo)
        decision = await search.run()
        spent, models = decision.spent, next(iter(settings.configs.values())).models
        click.echo(decision.reason)
        paid = cost(spent.cost_usd, tokens=spent.tokens, priced=all(each.price or each.replay for each in models))
        click.echo(f"{spent.calls} calls of models, {spent.tokens} tokens, cost {paid}, over all sessions")
        if decision.chosen is None:
            click.echo("the same command with a larger --calls or --dollars goes on")
        elif decision.chosen.parent:
            _write(store, settings, decision.chosen, out)


async def _capped(settings: "PromptSettings") -> "PromptSettings":
    """Return the settings with a cap on the cost, after each model has answered a tiny call."""
    from evokernel.llm.trial_call import try_models  # imports litellm, which takes seconds

    models = next(iter(settings.configs.values())).models
    trials = await try_models(models)
    for trial in trials:
        click.echo(trial)
    if settings.calls is None and settings.dollars is None and models:
        priced = all(trial.price for trial in trials)
        settings = replace(settings, **({"dollars": DEFAULT_DOLLARS} if priced else {"calls": DEFAULT_CALLS}))
    parts = [f"{settings.calls} calls"] if settings.calls else []
    parts += [in_dollars(settings.dollars)] if settings.dollars else []
    click.echo(f"at most {' and '.join(parts)}; --calls and --dollars change that")
    return settings


def _identity(settings: "PromptSettings") -> dict[str, object]:
    """Return what makes an evolution this one, as JSON values."""
    models = next(iter(settings.configs.values())).models
    return {
        "operator": settings.original.name,
        "prompt": hashlib.sha256(settings.text.encode()).hexdigest()[:16],
        "kernels": {task.store: task.candidate for task in settings.tasks},
        "held out": [task.name for task in settings.held_out],
        "asks": settings.asks,
        "models": [model.model or model.replay or model.agent for model in models],
    }


def _write(store: "PromptStore", settings: "PromptSettings", chosen: "PromptText", out: Path) -> None:
    """Write a winner and its lineage, and say how a run uses it."""
    from evokernel.evolve_prompts.folder import write_prompts

    file = write_prompts(out, settings.original.name, chosen.text, settings.parts)
    lineage = out / f"{settings.original.name}.lineage.json"
    document = {
        "operator": settings.original.name,
        "evokernel": __version__,
        "tasks": [asdict(task) for task in settings.tasks],
        "texts": [asdict(text) for text in store.lineage(chosen.number)],
        "trials": [asdict(trial) for trial in store.trials().values()],
    }
    try:
        lineage.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {lineage}: {error.strerror}") from None
    click.echo(f"written to {file}, its lineage to {lineage}; a run uses it with `prompts: {out}` in its config")

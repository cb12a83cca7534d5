"""The composition root: from a checked config to live objects. The only place that knows every class."""

import os
from collections.abc import Sequence
from pathlib import Path

from archive.niches import GridArchive
from archive.store import Store
from evokernel.budget import stopper_from
from evokernel.candidate import Candidate
from evokernel.config import IslandConfig, RunConfig
from evokernel.errors import ConfigError
from evokernel.evaluate.compilers import local_language
from evokernel.evaluate.pool import LocalEvaluator
from evokernel.protocols import Evaluator, Language, Listener, Operator
from evokernel.registry import resolve
from evokernel.search import Parts, Search
from evokernel.task import Task
from evokernel.tasks import load_task
from islands.archipelago import Archipelago
from islands.island import Island
from islands.selection import SELECTORS
from islands.topology import TOPOLOGIES
from operators import OPERATORS


def assemble(
    config: RunConfig,
    store: Store,
    *,
    listeners: Sequence[Listener] = (),
    evaluator: Evaluator | None = None,
    language: Language | None = None,
) -> Search:
    """Return a search on an open store.

    Args:
        config: the checked config, with absolute paths.
        store: opened for writing.
        listeners: who hears what happens.
        evaluator: another implementation than the local processes, for remote machines and for tests.
        language: another implementation than the built-in one of the config's name.

    Raises:
        ConfigError, TaskError, LanguageError: something the config names cannot be used.
    """
    task = load_task(config.task)
    language = language or local_language(config.language, config.evaluation, threads=config.threads)
    operators = make_operators(config)
    return Search(
        Parts(
            task=task,
            language=language,
            store=store,
            archipelago=make_archipelago(config, operators),
            operators=operators,
            evaluator=evaluator
            or LocalEvaluator(config.task, language, settings=config.evaluation, threads=config.threads),
            stopper=stopper_from(config.budget),
            listeners=listeners,
        ),
        config=config,
        seeds=seed_candidates(config, task),
        in_flight=config.in_flight or len(os.sched_getaffinity(0)) + 1,
    )


def make_operators(config: RunConfig) -> dict[str, Operator]:
    """Return every operator an island names. Raises `ConfigError` for an unknown one."""
    names = sorted({name for island in config.islands for name in island.operators})
    return {name: resolve(name, OPERATORS, "operator")() for name in names}


def make_archipelago(config: RunConfig, operators: dict[str, Operator]) -> Archipelago:
    """Return the empty islands of a config."""
    topology = resolve(config.topology, TOPOLOGIES, "topology")
    return Archipelago(
        [make_island(island) for island in config.islands],
        topology([island.name for island in config.islands]),
        operators=operators,
        seed=config.seed,
        migrate_every=config.migration.every,
        migrate_count=config.migration.count,
        reset_after=config.reset_after,
    )


def make_island(config: IslandConfig) -> Island:
    """Return one empty island."""
    selector = resolve(config.selector.kind, SELECTORS, "selector")
    return Island(
        name=config.name,
        operators=dict(config.operators),
        archive=GridArchive(config.niches.axes),
        selector=selector(config.selector.pressure),
    )


def seed_candidates(config: RunConfig, task: Task) -> list[Candidate]:
    """Return the sources a search starts from: the config's, or the task's own.

    Raises:
        ConfigError: there is none, or one cannot be read.
    """
    paths = [Path(source) for source in config.seed_sources]
    if not paths and config.language in task.seeds:
        paths = [task.seeds[config.language]]
    if not paths:
        raise ConfigError(
            f"task {task.name!r} has no seed in language {config.language!r}: "
            "name the file of a correct kernel under seed_sources in the config"
        )
    try:
        return [Candidate(path.read_text(encoding="utf-8"), config.language) for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read a seed source: {error}") from None

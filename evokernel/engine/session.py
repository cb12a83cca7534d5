"""Beginning of a session: the store is made to hold this run, and edits since the last session are noted."""

import json
from collections.abc import Callable
from typing import Any

import yaml

from archive.identity import RunIdentity
from archive.store import Store
from evokernel import __version__
from evokernel.config.changes import edits_between
from evokernel.config.load import parse_config
from evokernel.config.run import RunConfig, dump_config, flatten
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice


def begin_run(store: Store, config: RunConfig, evaluator: EvaluatorIdentity, notify: Callable[[Notice], None]) -> None:
    """Make sure the store holds this run, and write down the edits since its last session.

    Raises:
        RunMismatch: it holds another one, or an edit would make it one; nothing was written then.
    """
    edits = edits_since(store, config)
    store.database.power_safe = config.durable == "power"
    store.begin_run(
        RunIdentity(
            task=config.task,
            task_hash=evaluator.task_hash,
            seed=config.seed,
            language=config.language,
            device=evaluator.device,
            environment=evaluator.environment,
            evokernel_version=__version__,
            task_spec=config.evaluation.model_dump(mode="json"),
        ),
        earlier=evaluator.earlier_task_hashes,
    )
    store.edit_config(edits, config=dump_config(config))
    for key, old, new in edits:
        notify(Notice(f"config: {key} changed from {old} to {new}"))
    store.set_meta("device_sheet", json.dumps(dict(evaluator.device_sheet)))
    store.set_meta("sandbox", evaluator.sandbox)
    for workload, times in evaluator.baseline_us.items():
        notify(Notice(f"{workload}: " + ", ".join(f"{name} {us / 1e3:.3g} ms" for name, us in times.items())))


def edits_since(store: Store, config: RunConfig) -> list[tuple[str, Any, Any]]:
    """Return (key, old, new) for every setting that differs from those of the last session, None for an absent one.

    Raises:
        RunMismatch: one of them cannot change within a run.
    """
    stored = store.meta("config")
    if stored is None:
        return []
    return edits_between(flatten(parse_config(yaml.safe_load(stored), "the config in the store")), flatten(config))

"""Facts of a search's store that a queue counts by: what was used, what was found, why it stopped."""

from pathlib import Path

import yaml

from archive.store import Store
from archive.views.activity import last_stop
from evokernel.queue.records import StoreFacts


def store_facts(path: Path) -> StoreFacts:
    """Return the facts of a store; those of an empty one where there is no file.

    Raises `StoreError` if it cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return StoreFacts()
    with Store.open(path, write=False) as store, store.database.snapshot():
        if store.identity() is None:
            return StoreFacts()
        spent, curve, middle = store.spent(), store.curve(), store.last_seq() / 2
        earlier = [change.fitness.value for change in curve if change.seq <= middle]
        config = yaml.safe_load(store.meta("config") or "") or {}
        return StoreFacts(
            seconds=spent.seconds,
            dollars=spent.cost_usd,
            results=spent.steps,
            log_speedup=curve[-1].fitness.value if curve else None,
            half_log_speedup=earlier[-1] if earlier else None,
            stop=last_stop(store),
            device=config.get("device", ""),
            models=bool(config.get("models")),
            speedup=curve[-1].speedup if curve else None,
            when_spent=(config.get("budget") or {}).get("when_spent", "end"),
        )

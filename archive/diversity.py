"""Diversity of the islands, as a session last measured it: a note beside the facts, which no replay reads."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from archive.store import Store
from evokernel.records.diversity import IslandDiversity

KEY = "diversity"


def write_diversity(store: Store, islands: Mapping[str, IslandDiversity]) -> None:
    """Write the diversity of each island over what was measured before."""
    store.set_meta(KEY, json.dumps({name: asdict(each) for name, each in islands.items()}))


def read_diversity(store: Store) -> dict[str, IslandDiversity]:
    """Return the diversity of each island; empty where no session has measured it."""
    stored = json.loads(store.meta(KEY) or "{}")
    return {str(name): IslandDiversity(**each) for name, each in stored.items()}

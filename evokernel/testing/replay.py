"""State of a search that a store alone gives."""

from pathlib import Path

from archive.store import Store
from evokernel.engine.state import SearchState
from evokernel.engine.state_fold import StateFold


def replay_store(path: Path, fold: StateFold) -> SearchState:
    """Fold the facts of a store file into a fresh state and return it."""
    with Store.open(path, write=False) as store:
        fold.replay(store.facts())
    return fold.state

"""A disposable copy of the state of a search in its store, so that a long run resumes in a second.

The store stays the only truth. A snapshot of another config, task or code is not used, nor one that cannot be read or
gives another state. Then every fact is replayed.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import zstandard

from archive.journal import ResultEntry
from archive.store import Store
from archive.verdict_filter import ANY_VERDICT, VerdictFilter
from evokernel.config.run import BudgetConfig, RunConfig, dump_config
from evokernel.engine.state import SearchState, fingerprint_of, from_plain, to_plain
from evokernel.engine.state_fold import StateFold
from evokernel.errors import StoreError
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity
from evokernel.records.fitness import Elite

logger = logging.getLogger(__name__)

SHAPING = (
    "archive/account",
    "archive/calls",
    "archive/grid",
    "archive/verdict_filter",
    "evokernel/engine/state_fold",
    "evokernel/engine/inbox",
    "evokernel/engine/snapshot",
    "evokernel/engine/state",
    "evokernel/records/fitness",
    "evokernel/records/hidden_check",
    "evokernel/records/leader",
    "evokernel/records/step",
    "evokernel/source/tunables",
)
"""Modules that shape a state, beside the islands."""
UNLIMITED = BudgetConfig(evaluations=1)
"""In the place of any budget: none of them shapes the state."""
EVERY = 5000
"""Facts after which another snapshot is taken: replaying so many takes a second."""


class Snapshots:
    """Writes snapshots of a search's state into its store, and restores the state from the latest.

    Args:
        store: of the run; open for writing.
        fold: with a fresh state.
        config: shapes the state, except for its budget.
        evaluator: results of another task or device count for nothing.

    `fits` is a hash over everything that shapes a state: rules, config, task and device.
    """

    def __init__(self, store: Store, fold: StateFold, config: RunConfig, *, evaluator: EvaluatorIdentity) -> None:
        self._store = store
        self._fold = fold
        self.fits = _fits(config, evaluator)
        self._seq = 0

    def restore(self) -> None:
        """Restore the state of the latest snapshot that fits; without one leave the state as it is."""
        found = self._store.snapshot(fits=self.fits)
        if found is None:
            return
        try:
            self._fold.state = unpack(found, self._store, self._fold.verdict_filter)
        except (ValueError, TypeError, LookupError, AttributeError, StoreError, zstandard.ZstdError) as error:
            logger.info("a snapshot of the state is not used: %s", error)
        self._seq = self._fold.state.seq

    def take(self, *, at_once: bool = False) -> None:
        """Take a snapshot after `EVERY` facts since the last one; with `at_once` after a tenth as many."""
        state = self._fold.state
        if state.seq - self._seq >= (EVERY // 10 if at_once else EVERY):
            self._seq = state.seq
            try:
                self._store.put_snapshot(pack(state), fits=self.fits, seq=state.seq)
            except StoreError as error:  # a snapshot is optional: the next commit reports a full disk
                logger.info("no snapshot of the state was taken: %s", error)


class StoredResults:
    """Results that a snapshot names, read at once, with the verdicts that count."""

    def __init__(self, results: Mapping[int, ResultEntry], verdict_filter: VerdictFilter) -> None:
        self._results = {
            seq: replace(result, evaluation=verdict_filter.current(result.evaluation))
            for seq, result in results.items()
        }
        self._elites: dict[int, Elite] = {}

    def elite(self, seq: int) -> Elite:
        """Return the elite that a result made, the same object each time."""
        if seq not in self._elites:
            self._elites[seq] = self._results[seq].elite()
        return self._elites[seq]

    def evaluation(self, seq: int) -> Evaluation:
        """Return the evaluation of a result."""
        return self._results[seq].evaluation


def pack(state: SearchState) -> bytes:
    """Return a snapshot of a state."""
    plain, seqs = to_plain(state)
    text = json.dumps({"fingerprint": fingerprint_of(plain), "results": sorted(seqs), "state": plain})
    return zstandard.ZstdCompressor().compress(text.encode())


def unpack(body: bytes, store: Store, verdict_filter: VerdictFilter = ANY_VERDICT) -> SearchState:
    """Return the state of a snapshot, with the verdicts that count by a filter.

    Raises:
        ValueError, TypeError, LookupError, AttributeError, ZstdError: it cannot be read, or gives another state.
        StoreError: a result that it names cannot be read.
    """
    read = json.loads(zstandard.ZstdDecompressor().decompress(body))
    state = from_plain(read["state"], StoredResults(store.results(read["results"]), verdict_filter))
    if state.fingerprint() != read["fingerprint"]:
        raise ValueError("it gives another state than it was taken of")
    return state


def _fits(config: RunConfig, evaluator: EvaluatorIdentity) -> str:
    shaping = dump_config(config.model_copy(update={"budget": UNLIMITED, "notify": ()}))
    parts = (_rules(), evaluator.task_hash, evaluator.device, evaluator.evaluator_version, shaping)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def _rules() -> str:
    """Return a hash over the code that makes a state of facts: other code may make another state."""
    root = Path(__file__).parents[2]
    files = [*sorted((root / "islands").glob("*.py")), *(root / f"{name}.py" for name in SHAPING)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]

"""Resumption of a run: its state, brought to the end of its store."""

from collections.abc import Callable

from archive.store import Store
from archive.verdict_filter import verdict_filter_of
from evokernel.config.run import RunConfig
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state_fold import StateFold
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind


def resume(
    store: Store,
    fold: StateFold,
    config: RunConfig,
    evaluator: EvaluatorIdentity,
    *,
    notify: Callable[[Notice], None],
) -> Snapshots:
    """Apply every committed fact that no snapshot holds, and compare with the state at the last session's end.

    Args:
        store: of the run; open for writing.
        fold: with a fresh state.
        config: shapes the state, except for its budget.
        evaluator: results of another task or device count for nothing.
        notify: takes a note where the two states differ.
    """
    fold.verdict_filter = verdict_filter_of(store.database, evaluator)
    snapshots = Snapshots(store, fold, config, evaluator=evaluator)
    snapshots.restore()
    fold.replay(store.facts(after=fold.state.seq))
    for proposal in store.open_leases():
        fold.pending(proposal)
    if _ended_elsewhere(store, fold.state.fingerprint(), fits=snapshots.fits):
        text = "replaying the store gave another state than the last session ended in"
        notify(Notice(text, warning=True, kind=RemarkKind.FAULT))
    return snapshots


def _ended_elsewhere(store: Store, fingerprint: str, *, fits: str) -> bool:
    """Say whether the last session ended in another state of the same facts, rules and settings."""
    seq, noted, *under = (store.meta("fingerprint") or "0 none").split()
    comparable = under == [fits] and store.unchanged_since(int(seq)) and not store.open_leases()
    return comparable and noted != fingerprint

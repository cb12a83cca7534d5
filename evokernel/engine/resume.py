"""Going on with a run: its state, brought to where its store ends."""

from collections.abc import Callable

from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state import SearchState
from evokernel.engine.verdict_filter import verdict_filter_of
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind


def resume(
    store: Store,
    state: SearchState,
    config: RunConfig,
    evaluator: EvaluatorIdentity,
    *,
    notify: Callable[[Notice], None],
) -> Snapshots:
    """Apply every committed fact that no image holds, and compare with the state the last session ended in.

    Args:
        store: of the run; open for writing.
        state: fresh.
        config: all of it but the budget shapes the state.
        evaluator: results of another task or device count for nothing.
        notify: hears of a state that is another one.
    """
    state.verdict_filter = verdict_filter_of(store, evaluator)
    images = Snapshots(store, state, config, evaluator=evaluator)
    images.restore()
    state.replay(store.facts(after=state.seq))
    for proposal in store.open_leases():
        state.archipelago.pending(proposal)
    if _ended_elsewhere(store, state, fits=images.fits):
        text = "replaying the store gave another state than the last session ended in"
        notify(Notice(text, warning=True, kind=RemarkKind.FAULT))
    return images


def _ended_elsewhere(store: Store, state: SearchState, *, fits: str) -> bool:
    """Whether the last session, under the same rules and settings, ended in another state of the same facts."""
    seq, noted, *under = (store.meta("fingerprint") or "0 none").split()
    comparable = under == [fits] and store.unchanged_since(int(seq)) and not store.open_leases()
    return comparable and noted != state.fingerprint()

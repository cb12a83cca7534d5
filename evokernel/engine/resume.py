"""Going on with a run: its state, brought to where its store ends."""

from collections.abc import Callable

from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state import SearchState
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice


def resume(
    store: Store,
    state: SearchState,
    config: RunConfig,
    evaluator: EvaluatorIdentity,
    *,
    tell: Callable[[Notice], None],
) -> Snapshots:
    """Apply every committed fact that no image holds, and compare with the state the last session ended in.

    Args:
        store: of the run; open for writing.
        state: fresh.
        config: all of it but the budget shapes the state.
        evaluator: results of another task or device count for nothing.
        tell: hears of a state that is another one.
    """
    images = Snapshots(store, state, config, evaluator=evaluator)
    images.restore()
    state.replay(store.facts(after=state.seq), task_hash=evaluator.task_hash, device=evaluator.device)
    for proposal in store.open_leases():
        state.archipelago.pending(proposal)
    if _ended_elsewhere(store, state, fits=images.fits):
        tell(Notice("replaying the store gave another state than the last session ended in", warning=True))
    return images


def _ended_elsewhere(store: Store, state: SearchState, *, fits: str) -> bool:
    """Whether the last session, under the same rules and settings, ended in another state of the same facts."""
    seq, noted, *under = (store.meta("fingerprint") or "0 none").split()
    comparable = under == [fits] and store.unchanged_since(int(seq)) and not store.open_leases()
    return comparable and noted != state.fingerprint()

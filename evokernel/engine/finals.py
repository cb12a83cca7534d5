"""Crowning: a winner is measured anew, in fresh processes, on held-out inputs; what selected it is not reported."""

from collections.abc import Callable, Iterable

from archive.account import RunAccount
from archive.store import Store
from evokernel.engine.reuse import stored_verdict
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, combined_speedup
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite

CONTENDERS = 3


class FinalMeasurements:
    """Re-measures contenders until one holds."""

    def __init__(
        self, store: Store, evaluator: Evaluator, identity: EvaluatorIdentity, tell: Callable[[Notice], None]
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._identity = identity
        self._tell = tell

    def contenders(self, elites: Iterable[Elite]) -> list[Elite]:
        """Return the fittest few, best first; of equals the older."""
        return sorted(elites, key=lambda elite: (-elite.fitness.value, elite.seq))[:CONTENDERS]

    def first_seed(self, account: RunAccount) -> list[Elite]:
        """Return the first right seed, which the winner is compared with; nothing where there is none."""
        seed = account.seed
        return [] if seed is None else [self._store.results([seed.seq])[seed.seq].elite()]

    async def measure(self, elite: Elite, *, processes: int = 0) -> Evaluation:
        """Return the final evaluation of an elite: the stored one, or a new one from so many processes (0: all)."""
        stored = stored_verdict(self._store, self._identity, program_hash=elite.program_hash, budget=Fidelity.FINAL)
        if stored is not None:
            return stored.evaluation
        self._tell(Notice(f"measuring {elite.candidate.id} anew in fresh processes, and on held-out workloads"))
        request = EvaluationRequest(elite.candidate, elite.program_hash, Fidelity.FINAL, processes=processes)
        evaluation = await self._evaluator.evaluate(request)
        self._store.add_evaluation(evaluation)
        if evaluation.ok:
            speedup = combined_speedup(evaluation.timings)
            self._tell(
                Notice(f"{elite.candidate.id} holds: {speedup.value:.3f}x its baseline ({evaluation.key.mode} mode)")
            )
        else:
            self._tell(Notice(f"{elite.candidate.id} does not hold: {evaluation.status}", warning=True))
        return evaluation

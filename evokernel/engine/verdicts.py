"""Verdicts on programs: what was judged once under equal conditions is not judged anew."""

from collections.abc import Callable

from archive.records import StoredEvaluation
from archive.store import Store
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Status


class Verdicts:
    """The store's verdicts, and the evaluator's where the store has none.

    Args:
        store: where earlier verdicts are.
        evaluator: started already.
        identity: what it said of itself.
    """

    def __init__(self, store: Store, evaluator: Evaluator, identity: EvaluatorIdentity) -> None:
        self.identity = identity
        self._store = store
        self._evaluator = evaluator

    def stored(self, program_hash: str, fidelity: Fidelity) -> StoredEvaluation | None:
        """Return the verdict that this evaluator gave on a program, in whichever mode it could be run, or None.

        A source that was refused by its text alone says nothing of another that is the same program: tunables, regions
        and what is forbidden may stand in comments, which the hash leaves out.
        """
        found = map(self._store.find_evaluation, self.identity.keys(program_hash, fidelity))
        usable = (stored for stored in found if stored is not None)
        return next((stored for stored in usable if stored.evaluation.status is not Status.STATIC_REJECT), None)

    async def verdict(
        self, request: EvaluationRequest, *, before: Callable[[], None] = lambda: None
    ) -> tuple[Evaluation, int | None]:
        """Return an evaluation, and the seq of the stored one where it was there already.

        Args:
            request: what is to be judged.
            before: called where the evaluator is asked.

        Raises:
            HarnessError: our own machinery failed.
        """
        stored = self.stored(request.program_hash, request.budget)
        if stored is not None:
            return stored.evaluation, stored.seq
        before()
        return await self._evaluator.evaluate(request), None

    def keep(self, evaluation: Evaluation) -> int:
        """Write an evaluation down that is no result of a step by itself, and return its seq."""
        return self._store.add_evaluation(evaluation)


def only_our_faults(store: Store, candidate: Candidate, program_hash: str) -> bool:
    """Whether our own machinery failed each time a candidate was to be judged, and nobody is to judge it again."""
    if any(proposal.candidate.id == candidate.id for proposal in store.open_leases()):
        return False
    stored = store.evaluations_of(program_hash)
    return bool(stored) and all(each.evaluation.status is Status.HARNESS_ERROR for each in stored)

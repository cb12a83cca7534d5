"""Verdicts on candidates: no text is judged twice under equal conditions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from archive.file.records import StoredEvaluation
from archive.store import Store
from archive.views.effort import device_s
from evokernel.protocols import Evaluator, takes_checks
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Status
from evokernel.records.hidden_check import HiddenCheck

KEPT_LOOKS = 512
"""Evaluations of kernels that were not proposed that are kept for when they are."""


class Verdicts:
    """The store's verdicts, and the evaluator's where the store has none.

    Args:
        store: with earlier verdicts.
        evaluator: started already.
        checks: returns the hidden checks that the run has added so far; each verdict is under all of them.
    """

    def __init__(
        self,
        store: Store,
        evaluator: Evaluator,
        identity: EvaluatorIdentity,
        *,
        checks: Callable[[], Sequence[HiddenCheck]] = tuple,
    ) -> None:
        self.identity = identity
        self._checks = checks if takes_checks(evaluator) else tuple  # others could not be behind, for ever
        self._store = store
        self._evaluator = evaluator
        self._looked: dict[tuple[str, Fidelity], Evaluation] = {}

    def stored(self, candidate_id: str, program_hash: str, fidelity: Fidelity) -> StoredEvaluation | None:
        """Return this evaluator's verdict on a candidate, in any of its modes, or None.

        A verdict on another text does not count, even where a language gives both the same hash: a kernel can depend
        on its comments and its layout.
        """
        found = map(self._store.find_evaluation, self.identity.keys(program_hash, fidelity, checks=self._checks()))
        usable = (stored for stored in found if stored is not None)
        return next((stored for stored in usable if stored.evaluation.candidate_id == candidate_id), None)

    async def verdict(
        self, request: EvaluationRequest, *, before: Callable[[], None] = lambda: None
    ) -> tuple[Evaluation, int | None]:
        """Return an evaluation, and its seq where it was stored before.

        Args:
            before: called before the evaluator is asked.

        Raises:
            HarnessError: our own machinery failed.
        """
        stored = self.stored(request.candidate.id, request.program_hash, request.budget)
        if stored is not None:
            return stored.evaluation, stored.seq
        if (looked := self._looked.pop((request.candidate.id, request.budget), None)) is not None:
            return looked, None
        before()
        return await self._evaluator.evaluate(self._under_all(request)), None

    def behind(self, evaluation: Evaluation) -> bool:
        """Say whether a hidden check has been added since an evaluation was asked for."""
        key = evaluation.key
        return key != self.identity.key(key.program_hash, key.budget, mode=key.mode, checks=self._checks())

    def _under_all(self, request: EvaluationRequest) -> EvaluationRequest:
        return replace(request, checks=tuple(self._checks()))

    async def look(self, request: EvaluationRequest) -> tuple[Evaluation, float]:
        """Return the evaluation of a kernel that is not proposed; `verdict` returns it once, if it ever is.

        With it comes the time that it took the device now, in s: 0 where it was known. Raises `HarnessError` if our own
        machinery failed.
        """
        stored = self.stored(request.candidate.id, request.program_hash, request.budget)
        if stored is not None:
            return stored.evaluation, 0.0
        place = (request.candidate.id, request.budget)
        if (known := self._looked.get(place)) is not None:
            return known, 0.0
        evaluation = self._looked[place] = await self._evaluator.evaluate(self._under_all(request))
        for oldest in list(self._looked)[:-KEPT_LOOKS]:
            del self._looked[oldest]
        return evaluation, device_s(evaluation.metrics, evaluation.duration_s)

    def keep(self, evaluation: Evaluation) -> int:
        """Write down an evaluation outside any result of a step, and return its seq."""
        return self._store.add_evaluation(evaluation)


def only_our_faults(store: Store, candidate: Candidate) -> bool:
    """Say whether our own machinery failed at every judgement of a stored candidate, and no lease on it is open."""
    if any(proposal.candidate.id == candidate.id for proposal in store.open_leases()):
        return False
    stored = store.evaluations_of(store.candidate(candidate.id).program_hash)
    return bool(stored) and all(each.evaluation.status is Status.HARNESS_ERROR for each in stored)

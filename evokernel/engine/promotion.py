"""The verdict that counts for a candidate: an earlier one, or quick, and precise where it may be the best so far."""

import asyncio
from collections.abc import Callable

from archive.account import RunAccount, measured_program
from archive.follower import LeadingEvaluation
from archive.store import Store
from evokernel.engine.reuse import stored_verdict
from evokernel.errors import HarnessError
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import (
    Evaluation,
    EvaluationRequest,
    EvaluatorIdentity,
    Fidelity,
    combined_speedup,
    harness_failure,
)
from evokernel.records.events import Notice

TRIES = 2  # for one candidate, when our own machinery fails
FAILURES = 3  # candidates in a row that it failed on, before the search gives up


class PromotionPolicy:
    """Asks the evaluator, once for each program at a time.

    Args:
        store: where earlier verdicts are, and quick ones go that a precise one follows.
        evaluator: started already.
        identity: what it said of itself.
        standing: how good the best kernel is.
        tell: hears of our own faults.
    """

    def __init__(
        self,
        store: Store,
        evaluator: Evaluator,
        identity: EvaluatorIdentity,
        *,
        standing: RunAccount,
        tell: Callable[[Notice], None],
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._identity = identity
        self._standing = standing
        self._leading = LeadingEvaluation(store)
        self._tell = tell
        self._judging: dict[str, asyncio.Future[None]] = {}
        self._failures = 0

    async def alone(self, program: str) -> "ProgramLock":
        """Wait until nobody else has this program judged: that verdict will serve both."""
        while program in self._judging:
            await asyncio.wait([self._judging[program]])
        return ProgramLock(self._judging, program)

    async def verdict(self, candidate: Candidate, program: str) -> tuple[Evaluation, int | None]:
        """Return the evaluation that counts, and the seq of the stored one where it was there already.

        Raises:
            HarnessError: our own machinery failed on several candidates in a row.
        """
        quick, reused_from = await self._evaluate(candidate, program, Fidelity.QUICK)
        if not quick.ok or quick.stopped_early or self._standing.lead is None:
            return quick, reused_from
        if combined_speedup(quick.timings).high < self._standing.best_speedup:
            return quick, reused_from
        if reused_from is None:
            seq = self._store.add_evaluation(quick)
            self._standing.apply(measured_program(quick, seq, program_hash=program))
        return await self._evaluate(candidate, program, Fidelity.PRECISE)

    async def _evaluate(self, candidate: Candidate, program: str, budget: Fidelity) -> tuple[Evaluation, int | None]:
        stored = stored_verdict(self._store, self._identity, program_hash=program, budget=budget)
        if stored is not None:
            return stored.evaluation, stored.seq
        leading = self._leading.of(self._standing.lead)
        incumbent = {timing.workload: timing.speedup.value for timing in leading.timings} if leading else {}
        request = EvaluationRequest(candidate, program, budget, incumbent=incumbent)
        for _ in range(TRIES):
            try:
                evaluation = await self._evaluator.evaluate(request)
            except HarnessError as error:
                failure = error
                self._tell(Notice(f"our evaluator failed on {candidate.id}: {error}", warning=True))
            else:
                self._failures = 0
                return evaluation, None
        self._failures += 1
        if self._failures >= FAILURES:
            raise failure
        return harness_failure(self._identity.key(program, budget), candidate.id, str(failure)), None


class ProgramLock:
    """A context in which a program is judged by its owner only."""

    def __init__(self, judging: dict[str, asyncio.Future[None]], program: str) -> None:
        self._judging = judging
        self._program = program
        self._done = judging[program] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *details: object) -> None:
        del self._judging[self._program]
        self._done.set_result(None)

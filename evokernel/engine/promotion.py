"""Promotion: the rule that decides which right candidate is measured longer."""

import asyncio
from collections.abc import Callable

from archive.account import RunAccount, measured_program
from archive.follower import LeadingEvaluation
from evokernel.engine.verdicts import Verdicts
from evokernel.errors import HarnessError
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, harness_failure
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind
from evokernel.records.timing import combined_speedup

TRIES = 2  # for one candidate, when our own machinery fails
FAILURES = 3  # candidates in a row that it failed on, before the search gives up


class PromotionPolicy:
    """Asks the evaluator, once for each program at a time: quick, then precise where it may be the best so far.

    Args:
        leading: finds the evaluation by which the best kernel leads.
        precise_ms: clock time per workload of a precise timing, in ms.
        notify: takes notes on our own faults.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        *,
        account: RunAccount,
        leading: LeadingEvaluation,
        notify: Callable[[Notice], None],
        precise_ms: float,
    ) -> None:
        self._verdicts = verdicts
        self._precise_ms = precise_ms
        self._account = account
        self._leading = leading
        self._notify = notify
        self._judging: dict[str, asyncio.Future[None]] = {}
        self._failures = 0

    async def alone(self, program: str) -> "ProgramLock":
        """Wait while another task judges this program, and return a lock on it: one verdict serves both."""
        while program in self._judging:
            await asyncio.wait([self._judging[program]])
        return ProgramLock(self._judging, program)

    async def verdict(self, candidate: Candidate, program: str) -> tuple[Evaluation, int | None]:
        """Return the evaluation that counts, and its seq where it was stored before.

        Raises `HarnessError` if our own machinery failed on several candidates in a row.
        """
        quick, reused_from = await self._evaluate(candidate, program, Fidelity.QUICK)
        if not quick.ok or self._account.lead is None:
            return quick, reused_from
        if combined_speedup(quick.timings).high < self._account.best_speedup or self._are_the_leaders(quick):
            return quick, reused_from
        if all(each.pairs * (each.candidate_us + each.baseline_us) > 1e3 * self._precise_ms for each in quick.timings):
            return quick, reused_from  # a slow kernel, whose few pairs have taken as long as a precise timing
        if reused_from is None:
            seq = self._verdicts.keep(quick)
            self._account.apply(measured_program(quick, seq, program_hash=program))
        return await self._evaluate(candidate, program, Fidelity.PRECISE)

    def _are_the_leaders(self, quick: Evaluation) -> bool:
        """Say whether times are the leading kernel's own: the same machine code cannot beat itself in a longer look."""
        leading = self._leading.of(self._account.lead)
        return leading is not None and leading.candidate_id != quick.candidate_id and leading.timings == quick.timings

    async def _evaluate(self, candidate: Candidate, program: str, budget: Fidelity) -> tuple[Evaluation, int | None]:
        leading = self._leading.of(self._account.lead)
        incumbent = {timing.workload: timing.speedup.value for timing in leading.timings} if leading else {}
        request = EvaluationRequest(candidate, program, budget, incumbent=incumbent)
        for _ in range(TRIES):
            try:
                evaluation, reused_from = await self._verdicts.verdict(request)
            except HarnessError as error:
                failure = error
                text = f"our evaluator failed on {candidate.id}: {error}"
                self._notify(Notice(text, warning=True, kind=RemarkKind.FAULT, candidate=candidate.id))
            else:
                if reused_from is None:
                    self._failures = 0
                return evaluation, reused_from
        self._failures += 1
        if self._failures >= FAILURES:
            raise failure
        return harness_failure(self._verdicts.identity.key(program, budget), candidate.id, str(failure)), None


class ProgramLock:
    """A context in which only its owner judges a program."""

    def __init__(self, judging: dict[str, asyncio.Future[None]], program: str) -> None:
        self._judging = judging
        self._program = program
        self._done = judging[program] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *details: object) -> None:
        del self._judging[self._program]
        self._done.set_result(None)

"""Hidden checks that operators propose or a fork brings along: admitted, tried on the leading kernels, stored, and in
force from then on.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from archive.store import Store
from evokernel.engine.rejudging import leading_kernels
from evokernel.engine.state_fold import StateFold
from evokernel.errors import HarnessError
from evokernel.protocols import CheckEvaluator, Evaluator, takes_checks
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite
from evokernel.records.hidden_check import MOST_CHECKS, CheckReply, HiddenCheck
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import Selection


@dataclass(frozen=True, slots=True)
class _Author:
    """The proposer of a check."""

    operator: str
    """Its name."""
    model: str
    """The model that answered; empty where none is named."""
    step: int | None = None
    """The step of the reply; None where it was one of an earlier run."""


class HiddenChecks:
    """Takes checks in, one after the other.

    A proposed check that breaks no leading kernel is dropped: it would cost time with every candidate.

    Args:
        evaluator: started already.
        notify: takes a note on each check, and on each kernel that leaves.
    """

    def __init__(
        self, store: Store, fold: StateFold, evaluator: Evaluator, *, notify: Callable[[Notice], None]
    ) -> None:
        self._store = store
        self._fold = fold
        self._evaluator = evaluator
        self._notify = notify
        self._one_at_a_time = asyncio.Lock()

    async def take(self, reply: CheckReply, selection: Selection) -> str:
        """Take in the checks of a reply; return what became of each, in one line."""
        if not takes_checks(self._evaluator):
            return "this evaluator takes no further hidden checks"
        found, author = [], _Author(selection.operator, reply.usage.model, selection.step)
        for check in reply.checks:
            try:
                outcome = await self._taken(self._evaluator, check, author)
            except HarnessError as error:
                outcome = self._failed(error, step=selection.step)
            found.append(f"{_shown(check)}: {outcome}")
        return "; ".join(found)

    async def take_brought_along(self, stop_asked: Callable[[], str]) -> None:
        """Take in the checks of the run that this one was forked from, also those that break no kernel here.

        One that does not fit the task of this run is dropped with a note. Where our evaluator fails on one, or a stop
        is asked for, a later session goes on.
        """
        if not takes_checks(self._evaluator):
            return
        for each in self._store.checks_brought_along():
            if stop_asked():
                return
            author = _Author(each.operator, each.model)
            try:
                outcome = await self._taken(self._evaluator, each.check, author, only_if_some_break=False)
            except HarnessError as error:
                self._failed(error)
                continue
            self._store.settle_check(each.check)
            text = f"a hidden check of the run before, {_shown(each.check)}: {outcome}"
            self._notify(Notice(text, kind=RemarkKind.HIDDEN_CHECK))

    def _failed(self, error: HarnessError, *, step: int | None = None) -> str:
        text = f"our evaluator failed on a hidden check: {error}"
        self._notify(Notice(text, warning=True, kind=RemarkKind.FAULT, step=step))
        return f"our evaluator failed: {error}"

    async def _taken(
        self, evaluator: CheckEvaluator, check: HiddenCheck, author: _Author, *, only_if_some_break: bool = True
    ) -> str:
        """Admit one check, try it on the leading kernels, and store it; return what became of it.

        With `only_if_some_break` one that breaks no kernel is not stored. Nothing waits between the last look for
        leading kernels and the commit, so no kernel slips through.
        """
        async with self._one_at_a_time:
            checks = self._fold.history.checks
            if check.digest in {each.digest for each in checks}:
                return "in force already"
            if len(checks) >= MOST_CHECKS:
                return f"refused: the run has added {MOST_CHECKS} already"
            if refusal := await evaluator.admit(check):
                return f"refused: {refusal}"
            under, tried, failed = (*checks, check), set[str](), list[Evaluation]()
            while waiting := self._untried(tried):
                requests = [
                    EvaluationRequest(each.candidate, each.program_hash, Fidelity.QUICK, checks=under)
                    for each in waiting
                ]
                verdicts = await asyncio.gather(*map(evaluator.recheck, requests))
                failed += [verdict for verdict in verdicts if verdict is not None]
                tried.update(each.program_hash for each in waiting)
            if only_if_some_break and not failed:
                return f"breaks none of {len(tried)} kernels"
            self._add(check, failed, author, tried=len(tried))
            return f"added, and {len(failed)} of {len(tried)} kernels failed it"

    def _add(self, check: HiddenCheck, failed: Sequence[Evaluation], author: _Author, *, tried: int) -> None:
        entry, seqs = self._store.add_check(
            check, failed, operator=author.operator, model=author.model, step=author.step
        )
        self._fold.apply_inbox(entry)
        for seq, evaluation in zip(seqs, failed, strict=True):
            self._fold.apply_evaluation(seq, evaluation)
        self._say(check, failed, tried, author)

    def _untried(self, tried: Collection[str]) -> list[Elite]:
        leading = leading_kernels(self._store, self._fold)
        return [elite for name, elite in leading.items() if name not in tried]

    def _say(self, check: HiddenCheck, failed: Collection[Evaluation], tried: int, author: _Author) -> None:
        kind, step = RemarkKind.HIDDEN_CHECK, author.step
        if step is not None:
            text = (
                f"{author.operator} added a hidden check, {_shown(check)}: {len(failed)} of {tried} kernels failed it"
            )
            self._notify(Notice(text, kind=kind, step=step))
        for evaluation in failed:
            name = evaluation.candidate_id
            text = f"{name} is no elite any more: {evaluation.feedback.partition(chr(10))[0]}"
            self._notify(Notice(text, kind=kind, step=step, candidate=name))


def _shown(check: HiddenCheck) -> str:
    """Return a check in words, for people; prompts of operators that write kernels never hold it."""
    sizes = " ".join(f"{name}={size}" for name, size in check.sizes.items())
    contents = ", ".join(f"{name} {'+'.join(words)}" for name, words in check.contents.items())
    return " ".join(filter(None, (sizes, f"({contents})" if contents else "", check.reason)))

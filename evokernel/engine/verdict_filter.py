"""By which evaluator's verdicts a state is made of a store that may hold those of others, too."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from archive.identity import RunIdentity
from archive.journal import EvaluationEntry, ResultEntry
from archive.queries import judged_again
from archive.store import Store
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity, Status


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    """The evaluator whose verdicts count: its parts of their keys, "" for any.

    `again` holds, by program, what it found of kernels that an earlier version had judged.
    """

    task_hash: str = ""
    device: str = ""
    version: str = ""
    again: Mapping[str, Evaluation] = field(default_factory=dict)

    def foreign(self, fact: ResultEntry | EvaluationEntry) -> bool:
        """Whether a fork brought a verdict along from another task or device."""
        key = fact.evaluation.key
        other_task = bool(fact.origin) and self.task_hash not in ("", key.task_hash)
        return other_task or self.device not in ("", key.device)

    def current(self, evaluation: Evaluation) -> Evaluation:
        """Return what a verdict of this run is worth now.

        What another version of the evaluator found right, or this one under an earlier text of the task, is worth what
        was found when it was judged again. Where it was not it says nothing, as after a fault of our own.
        """
        key = evaluation.key
        if not evaluation.ok or not self.version or (key.evaluator_version, key.task_hash) == self._parts:
            return evaluation
        return self.again.get(key.program_hash) or replace(evaluation, status=Status.HARNESS_ERROR, timings=())

    @property
    def _parts(self) -> tuple[str, str]:
        return self.version, self.task_hash


ANY_VERDICT = VerdictFilter()
"""Lets every verdict count."""


def verdict_filter_of(store: Store, judge: EvaluatorIdentity | RunIdentity) -> VerdictFilter:
    """Return the measure of the evaluator that judges now, or of the one that judged last in a store."""
    version = judge.evaluator_version
    again = judged_again(store.database, task_hash=judge.task_hash, device=judge.device, version=version)
    return VerdictFilter(judge.task_hash, judge.device, version, again)

"""Filter for the verdicts that count in a store with verdicts of several evaluators."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from archive.file.database import Database
from archive.identity import RunIdentity
from archive.journal import EvaluationEntry, ResultEntry
from archive.queries import judged_again
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity, Status


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    """The evaluator whose verdicts count, by its parts of the evaluation key; an empty part lets any count."""

    task_hash: str = ""
    """The hash of the task now."""
    device: str = ""
    """The device that the run is for."""
    version: str = ""
    """The version of the evaluator."""
    again: Mapping[str, Evaluation] = field(default_factory=dict)
    """Its verdicts on kernels that an earlier version had judged, by program."""

    def is_foreign(self, *, origin: bool, task_hash: str, device: str) -> bool:
        """Say whether a verdict is of another task or device; `origin`: a fork brought it along."""
        return (origin and self.task_hash not in ("", task_hash)) or self.device not in ("", device)

    def is_outdated(self, status: Status, *, version: str, task_hash: str) -> bool:
        """Say whether another evaluator version, or one under an earlier text of the task, found a kernel right.

        Such a verdict does not count now. A kernel that they found wrong stays wrong.
        """
        now = (self.version, self.task_hash)
        return status is Status.OK and self.version != "" and (version, task_hash) != now

    def foreign(self, fact: ResultEntry | EvaluationEntry) -> bool:
        """Say whether a fork brought a verdict along from another task or device."""
        key = fact.evaluation.key
        return self.is_foreign(origin=bool(fact.origin), task_hash=key.task_hash, device=key.device)

    def outdated(self, evaluation: Evaluation) -> bool:
        """Say whether a verdict no longer counts, since the evaluator has changed."""
        key = evaluation.key
        return self.is_outdated(evaluation.status, version=key.evaluator_version, task_hash=key.task_hash)

    def current(self, evaluation: Evaluation) -> Evaluation:
        """Return a verdict of this run as it counts now.

        A new verdict on the same kernel replaces an outdated one. Without a new one the verdict becomes a fault of our
        own, which counts for nothing.
        """
        if not self.outdated(evaluation):
            return evaluation
        again = self.again.get(evaluation.key.program_hash)
        return again or replace(evaluation, status=Status.HARNESS_ERROR, timings=())


ANY_VERDICT = VerdictFilter()
"""The filter that lets every verdict count."""


def verdict_filter_of(database: Database, judge: EvaluatorIdentity | RunIdentity) -> VerdictFilter:
    """Return the filter for the evaluator that judges now, or for the one that judged last in a store."""
    version = judge.evaluator_version
    again = judged_again(database, task_hash=judge.task_hash, device=judge.device, version=version)
    return VerdictFilter(judge.task_hash, judge.device, version, again)

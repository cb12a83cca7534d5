"""Candidates that were compiled to the same: one measurement serves them all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import Outcome
from evokernel.evaluation import Budget, Evaluation, Mode, Status


@dataclass(slots=True)
class Twins:
    """The first timing of everything that was compiled, by the hash of it and the budget.

    Only candidates run in the evaluator's own `mode` count: of one that could not be recorded the hash does not say
    all that it does.
    """

    mode: Mode
    _first: dict[tuple[str, Budget], Evaluation] = field(default_factory=dict)

    def remember(self, evaluation: Evaluation) -> None:
        """Keep a measurement for others; what a winner's processes measured is never used again."""
        if evaluation.ok and evaluation.key.mode is self.mode and evaluation.key.budget is not Budget.FINAL:
            self._first.setdefault((evaluation.artifact_hash, evaluation.key.budget), evaluation)

    def outcome(
        self, artifact_hash: str, budget: Budget, *, own: str, checked: Outcome, metrics: Mapping[str, float]
    ) -> Outcome | None:
        """Return what another candidate measured, or None where there is none, or it may not speak for this one.

        Args:
            artifact_hash: of what was compiled.
            budget: the same for both.
            own: id of the candidate that was `checked`.
            checked: its own host code was checked, and may differ; what it launches is the same.
            metrics: those of this candidate alone.
        """
        twin = self._first.get((artifact_hash, budget))
        if twin is None or twin.candidate_id == own or (checked.mode or self.mode) != self.mode:
            return None
        text = f"compiled to the same as {twin.candidate_id}, whose times these are\n{twin.feedback}"
        return Outcome(
            *(Status.OK, twin.stage, text),
            timings=twin.timings,
            stopped_early=twin.stopped_early,
            metrics={**metrics, "twin": 1.0},
            artifact=checked.artifact,
        )

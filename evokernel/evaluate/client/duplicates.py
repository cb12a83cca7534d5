"""Candidates that were compiled to the same: one measurement serves them all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Evaluation, Fidelity, Mode, Status


@dataclass(slots=True)
class DuplicateArtifacts:
    """The first timing of everything that was compiled, by the hash of it and the budget.

    Only candidates run in the evaluator's own `mode` count: of one that could not be recorded the hash does not say
    all that it does.
    """

    mode: Mode
    _first: dict[tuple[str, Fidelity], Evaluation] = field(default_factory=dict)

    def remember(self, evaluation: Evaluation) -> None:
        """Keep a measurement for others; what a winner's processes measured is never used again."""
        if evaluation.ok and evaluation.key.mode is self.mode and evaluation.key.budget is not Fidelity.FINAL:
            self._first.setdefault((evaluation.artifact_hash, evaluation.key.budget), evaluation)

    def outcome(
        self, artifact_hash: str, budget: Fidelity, *, own: str, checked: PhaseVerdict, metrics: Mapping[str, float]
    ) -> PhaseVerdict | None:
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
        return PhaseVerdict(
            *(Status.OK, twin.stage, text),
            timings=twin.timings,
            stopped_early=twin.stopped_early,
            metrics={**metrics, "twin": 1.0},
            artifact=checked.artifact,
        )

"""Candidates that compile to the same artifact, which share one measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Evaluation, Fidelity, Mode, Status


@dataclass(slots=True)
class DuplicateArtifacts:
    """The first timing of each artifact, by its hash and the budget.

    Only candidates run in the evaluator's own `mode` count: without a recording the hash does not cover a candidate's
    host code.
    """

    mode: Mode
    _first: dict[tuple[str, Fidelity], Evaluation] = field(default_factory=dict)

    def remember(self, evaluation: Evaluation) -> None:
        """Keep a measurement for others; those of final measurements are never reused."""
        if evaluation.ok and evaluation.key.mode is self.mode and evaluation.key.budget is not Fidelity.FINAL:
            self._first.setdefault((evaluation.artifact_hash, evaluation.key.budget), evaluation)

    def outcome(
        self, artifact_hash: str, budget: Fidelity, *, own: str, checked: PhaseVerdict, metrics: Mapping[str, float]
    ) -> PhaseVerdict | None:
        """Return the measurement of another candidate with the same artifact, or None where none may be used.

        Args:
            artifact_hash: of the compiled code.
            budget: the same for both.
            own: id of the candidate that was `checked`.
            checked: its own verdict; its host code may differ, its launches do not.
            metrics: those of this candidate alone.
        """
        first = self._first.get((artifact_hash, budget))
        if first is None or first.candidate_id == own or (checked.mode or self.mode) != self.mode:
            return None
        text = f"compiled to the same as {first.candidate_id}, whose times these are\n{first.feedback}"
        return PhaseVerdict(
            *(Status.OK, first.stage, text),
            timings=first.timings,
            stopped_early=first.stopped_early,
            metrics={**metrics, "twin": 1.0},
            artifact=checked.artifact,
        )

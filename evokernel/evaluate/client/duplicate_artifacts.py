"""Candidates that compile to the same artifact, which share their times but no other part of a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import NONDETERMINISTIC, Evaluation, Fidelity, Mode, Status

REMEMBERED = 4096
"""Timings that are kept; an evaluation takes some KiB, and a judge may give 10^5 of them."""


@dataclass(slots=True)
class DuplicateArtifacts:
    """The first timing of each artifact, by its hash and the budget.

    Each candidate passes all checks by itself, whatever its text is equal to. Only candidates run in the evaluator's
    own `mode` count: without a recording the hash does not cover a candidate's host code. A hash has all its digits,
    so that nobody finds two artifacts with the same one.
    """

    mode: Mode
    _first: dict[tuple[str, Fidelity], Evaluation] = field(default_factory=dict)

    def remember(self, evaluation: Evaluation) -> None:
        """Keep a measurement for others; those of final measurements are never reused."""
        if evaluation.ok and evaluation.key.mode is self.mode and evaluation.key.budget is not Fidelity.FINAL:
            self._first.setdefault((evaluation.artifact_hash, evaluation.key.budget), evaluation)
            if len(self._first) > REMEMBERED:
                del self._first[next(iter(self._first))]

    def outcome(
        self, artifact_hash: str, budget: Fidelity, *, own: str, checked: PhaseVerdict, metrics: Mapping[str, float]
    ) -> PhaseVerdict | None:
        """Return the measurement of another candidate with the same artifact, or None where none may be used.

        Args:
            budget: the same for both.
            own: id of the candidate that was `checked`.
            checked: its own verdict; its host code may differ, its launches do not.
            metrics: those of this candidate alone.
        """
        first = self._first.get((artifact_hash, budget))
        if first is None or first.candidate_id == own or (checked.mode or self.mode) != self.mode:
            return None
        both = metrics, first.metrics
        text = f"compiled to the same as {first.candidate_id}, whose times these are\n{first.feedback}"
        return PhaseVerdict(
            *(Status.OK, first.stage, text),
            timings=first.timings,
            stopped_early=first.stopped_early,
            metrics={**metrics, "twin": 1.0, NONDETERMINISTIC: max(each.get(NONDETERMINISTIC, 0.0) for each in both)},
            artifact=checked.artifact,
        )

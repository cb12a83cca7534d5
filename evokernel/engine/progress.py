"""Where a run stands: the numbers a person and a stopper ask for, a fold over committed results."""

import math
from dataclasses import dataclass, field

from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation, Status, floor_share
from evokernel.records.fitness import Elite
from islands.references import EliteRef


@dataclass(slots=True)
class RunProgress:
    """Counts and the best so far.

    `copied` counts the results a fork brought along; `since_improvement` those since the best kernel, which has the
    speed-ups `best_by_workload` and reaches `roofline_share` of the device's floor, where that is known.
    """

    results: int = 0
    copied: int = 0
    correct: int = 0
    since_improvement: int = 0
    best: EliteRef | None = None
    best_by_workload: dict[str, float] = field(default_factory=dict)
    roofline_share: float | None = None
    seed: EliteRef | None = None
    last_failure: Evaluation | None = field(default=None, repr=False)

    def take(self, proposal: Proposal, evaluation: Evaluation, elite: Elite | None, *, barred: bool = False) -> bool:
        """Count one result and the elite it made; say whether that is the best so far.

        A program that is `barred` cannot be.
        """
        self.results += 1
        self.since_improvement += evaluation.status is not Status.HARNESS_ERROR
        if elite is None:
            self.last_failure = evaluation
            return False
        self.correct += 1
        if proposal.operator == "seed" and self.seed is None:
            self.seed = elite
        if barred or (self.best is not None and elite.fitness.value <= self.best.fitness.value):
            return False
        self.best = elite
        self.best_by_workload = {timing.workload: timing.speedup.value for timing in evaluation.timings}
        self.roofline_share = floor_share(evaluation.timings)
        self.since_improvement = 0
        return True

    def demote(self, program_hash: str, successor: Elite | None) -> None:
        """Put another in the place of a best kernel that did not hold."""
        if self.best is not None and self.best.program_hash == program_hash:
            self.best = successor
            self.best_by_workload = {}
            self.roofline_share = None

    @property
    def best_speedup(self) -> float:
        """The best kernel's combined speed-up over the anchor baseline; 0 without one."""
        return math.exp(self.best.fitness.log_speedup) if self.best else 0.0

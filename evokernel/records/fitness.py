"""Fitness: the currency of selection, made from evaluations in exactly one place."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.timing import combined_speedup

_RANK = {Fidelity.QUICK: 0, Fidelity.PRECISE: 1, Fidelity.FINAL: 2}


@dataclass(frozen=True, slots=True, order=True)
class Fitness:
    """Worth of a program, compared by `value`."""

    value: float
    """Natural logarithm of the low end of the speed-up's 95 % interval: a lucky short measurement wins nothing."""
    log_speedup: float
    """Natural logarithm of the speed-up."""


def fitness_of(evaluations: Sequence[Evaluation]) -> Fitness | None:
    """Return the fitness of one program from all its evaluations on the search workloads; None if it has failed any.

    The largest budget speaks; among equals the newest. Faults of our own are no verdict and do not count.
    """
    verdicts = [evaluation for evaluation in evaluations if evaluation.status is not Status.HARNESS_ERROR]
    timed = [evaluation for evaluation in verdicts if evaluation.key.budget is not Fidelity.FINAL]
    if not timed or any(not evaluation.ok for evaluation in verdicts):
        return None
    best = max(enumerate(timed), key=lambda item: (_RANK[item[1].key.budget], item[0]))[1]
    speedup = combined_speedup(best.timings)
    return Fitness(math.log(speedup.low), math.log(speedup.value))


@dataclass(frozen=True, slots=True)
class Elite:
    """A right candidate with its measured properties: archives hold it, operators see it."""

    candidate: Candidate
    """The source."""
    fitness: Fitness
    """Its worth."""
    descriptor: Mapping[str, float]
    """Measured behaviour, by name."""
    seq: int
    """The fact that brought it in."""
    program_hash: str
    """Hash of its source."""
    skeleton: str
    """Hash of its source with tunables masked."""
    feedback: str = ""
    """Text of its evaluation for the author."""
    workloads: Mapping[str, float] = field(default_factory=dict)
    """By search workload, the natural logarithm of the low end of the speed-up's 95 % interval."""
    checked_s: float = 0.0
    """Time that its checks took, in s; 0 where unknown."""


def elite_of(
    candidate: Candidate, evaluation: Evaluation, *, seq: int, program_hash: str, skeleton: str
) -> Elite | None:
    """Return the elite that a result has made; None where the candidate is not right."""
    fitness = fitness_of([evaluation])
    if fitness is None:
        return None
    return Elite(
        candidate=candidate,
        fitness=fitness,
        descriptor=dict(evaluation.descriptor),
        seq=seq,
        program_hash=program_hash,
        skeleton=skeleton,
        feedback=evaluation.feedback,
        workloads={timing.workload: math.log(timing.speedup.low) for timing in evaluation.timings},
        checked_s=evaluation.metrics.get("check_s", 0.0),
    )

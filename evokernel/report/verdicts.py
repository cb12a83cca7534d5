"""Choice among a program's evaluations: for selection, for the report, and on held-out inputs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.fitness import Fitness, fitness_of
from evokernel.records.timing import Z95, Speedup, Timing, combined_speedup
from evokernel.tasks.at_sizes import NATIVE, REFERENCE


class Holdout(StrEnum):
    """Result of a candidate on held-out workloads."""

    PASSED = "passed"
    """Right in its final measurement."""
    FAILED = "failed"
    """Wrong in its final measurement."""
    PENDING = "pending"
    """Not measured finally yet."""


class MeasurementKind(StrEnum):
    """Source of a number: the search, or the final measurement."""

    SEARCH = "search"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class ProgramVerdicts:
    """A program's evaluations, sorted."""

    fitness: Fitness | None
    """None where it is not right, or not timed."""
    search: Evaluation | None
    """The evaluation that `fitness` is made of; None without one."""
    final: Evaluation | None
    """The newest one of budget `final`."""
    failure: Evaluation | None
    """The newest one that is not right."""

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation]) -> "ProgramVerdicts":
        """Sort all evaluations of one program, oldest first; our own faults do not count."""
        judged = [evaluation for evaluation in evaluations if evaluation.status is not Status.HARNESS_ERROR]
        fitness = fitness_of(judged)
        timed = [e for e in reversed(judged) if e.ok and e.key.budget is not Fidelity.FINAL]
        return cls(
            fitness=fitness,
            search=next((e for e in timed if fitness is None or fitness_of([e]) == fitness), None),
            final=next((e for e in reversed(judged) if e.key.budget is Fidelity.FINAL), None),
            failure=next((e for e in reversed(judged) if not e.ok), None),
        )

    @property
    def holdout(self) -> Holdout:
        """Result on held-out workloads."""
        if self.final is None:
            return Holdout.PENDING
        return Holdout.PASSED if self.final.ok else Holdout.FAILED

    def of_kind(self, kind: MeasurementKind) -> Evaluation | None:
        """Return the timed evaluation of a kind, or None."""
        if kind is MeasurementKind.SEARCH:
            return self.search
        return self.final if self.final is not None and self.final.ok else None

    @property
    def kind(self) -> MeasurementKind:
        """The kind of evaluation whose numbers are reported: the final one where it holds."""
        return MeasurementKind.FINAL if self.of_kind(MeasurementKind.FINAL) is not None else MeasurementKind.SEARCH

    @property
    def reported(self) -> Evaluation | None:
        """The evaluation whose numbers are reported, or None where nothing was timed."""
        return self.of_kind(self.kind)


def over_baselines(evaluation: Evaluation) -> dict[str, Speedup]:
    """Return the speed-up over each baseline it was paired with, fastest baseline first.

    A final measurement pairs a candidate with the whole panel; a search, on each workload, with the fastest baseline
    only.
    """
    if evaluation.panel:
        return dict(sorted(evaluation.panel.items(), key=lambda item: item[1].value))
    by_baseline: dict[str, tuple[Timing, ...]] = {}
    for timing in evaluation.timings:
        by_baseline[timing.baseline] = (*by_baseline.get(timing.baseline, ()), timing)
    return {name: combined_speedup(timings) for name, timings in by_baseline.items()}


def torch_words(timings: Iterable[Timing]) -> str:
    """Return how messages call torch: with the name of its baseline, where a task has none but its reference."""
    alone = any(timing.baseline == REFERENCE for timing in timings)
    return f"torch (the baseline {REFERENCE})" if alone else "torch"


def over_torch(evaluation: Evaluation, timing: Timing) -> Speedup:
    """Return the speed-up over torch on a workload, as far as it is known.

    Where another baseline is faster than torch there, it is the greater of the speed-up over that one, and of the one
    over torch on all workloads.
    """
    over_fastest, over_native = timing.speedup, evaluation.panel.get(NATIVE)
    if timing.baseline == NATIVE or over_native is None:
        return over_fastest
    return max(over_fastest, over_native, key=lambda speedup: speedup.low)


def nowhere_above(evaluation: Evaluation, speedup: float) -> bool:
    """Return whether all speed-ups over torch, those on held-out workloads too, lie below this one."""
    found = [over_torch(evaluation, timing) for timing in evaluation.timings]
    held_out = evaluation.holdout_speedup
    return all(each.high < speedup for each in (*found, *([held_out] if held_out else [])))


def quotient(one: Speedup, other: Speedup) -> Speedup:
    """Return the ratio of two speed-ups over the same baselines, measured apart, with its 95 % interval."""
    spread = math.hypot(_log_error(one), _log_error(other))
    return Speedup.from_log(math.log(one.value / other.value), spread)


def _log_error(speedup: Speedup) -> float:
    return math.log(speedup.high / speedup.low) / (2 * Z95)

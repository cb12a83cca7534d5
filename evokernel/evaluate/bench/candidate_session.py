"""Session of one candidate under judgement: it runs on checked inputs, and is timed beside a baseline."""

from collections.abc import Sequence
from typing import Protocol

from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.paired_clock import PairedClock, WorkerClock
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.numerics.arrays import Array, identical
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import result_tensors
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Mode, Stage, Status, Timing

_SLOW_S = 0.05
_HOPELESS = 10.0
_HOPELESS_CHECKS = 2


class CandidateSession(Protocol):
    """Operations on one candidate for the stages of the cascade, in any mode."""

    mode: Mode
    artifact: str
    """Hash of its launches on the search workloads; empty where they are not known."""

    @property
    def bench(self) -> Bench:
        """The bench that judges it."""
        ...

    def compare(self, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run it on a case of each distribution; return a verdict on a failure, or None. Raises `WorkerError`."""
        ...

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> PairedClock:
        """Return the clock that times it against a baseline. Raises `WorkerError`, `HarnessError`."""
        ...

    def remark(self) -> str:
        """Return a remark for the author on how it was timed, or nothing."""
        ...

    def sanitize(self) -> Inspection:
        """Look for wrong accesses and races that right outputs do not show. Raises `HarnessError`."""
        ...

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Name its bottleneck on the heaviest timed search workload. Raises `HarnessError`."""
        ...

    def close(self) -> None:
        """End it, and all processes it started."""
        ...


class WorkerSession:
    """A candidate in a worker of its own. `note` begins the remark on how it was timed."""

    mode = Mode.WORKER
    artifact = ""

    def __init__(self, bench: Bench, artifact: bytes, source: str, *, note: str = "") -> None:
        self.bench = bench
        self.worker = bench.workers.load(artifact, source)
        self._note = note
        self._call_s: dict[BoundWorkload, float] = {}
        self._known: set[str] = set()

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> WorkerClock:
        """Return the clock that times it on its worker's buffers."""
        self.bench.workers.baselines.choose(baseline, bound)
        bound.attach(self.worker, self._known)
        return WorkerClock(self.bench, self.worker, bound, fresh, stage=stage, call_s=self._call_s[bound])

    def remark(self) -> str:
        """Return why it runs in a worker where others are recorded, and why it was not captured as a graph."""
        return "\n".join(filter(None, (self._note, self.worker.remark())))

    def sanitize(self) -> Inspection:
        """Return nothing: sanitizers for workers' candidates come with the build."""
        return Inspection()

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Return no profile: the candidate's own host code would run under the profiler."""
        return Inspection(remarks="not profiled: only what was recorded is run under a profiler")

    def close(self) -> None:
        """End the worker and all processes it started."""
        self.worker.close()

    def compare(self, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run one call after the other; the inputs of each are written only once the worker is stopped."""
        bound.wipe(min(2, bound.sets))  # they hold an earlier candidate's answers to the same inputs
        bound.attach(self.worker, self._known)
        hopeless, first = False, list[Array]()
        for distribution in distributions:
            if distribution not in checks_for(distributions, hopeless=hopeless):
                break
            seconds = self._call(bound, distribution, 0)
            self._call_s[bound] = min(seconds, self._call_s.get(bound, seconds))
            hopeless = is_hopeless(bound, self._call_s[bound])
            first = first or [output.clone() for output in bound.outputs(0)]
            found = compare_set(bound, 0, distribution, stage)
            if found is not None:
                return found
        if stage is Stage.SMOKE or self.bench.threads > 1 or hopeless:
            return None
        self._call(bound, distributions[0], 1)
        return compare_runs(bound, first, bound.outputs(1), stage)

    def _call(self, bound: BoundWorkload, distribution: str, set_index: int) -> float:
        """Run one call on a case; returns seconds."""
        limit = self.bench.settings.timeout_s
        # The worker is stopped before the inputs are written, so it cannot use them early.
        self.worker.prepare(bound.name, first_set=set_index, calls=1, timeout_s=limit)
        bound.put(set_index, bound.case(distribution).inputs)
        return self.worker.go(timeout_s=limit) / 1e9


def compare_set(bound: BoundWorkload, set_index: int, distribution: str, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where the outputs in one copy are wrong for a distribution's inputs."""
    expected = bound.case(distribution).expected
    finding = judge_output(expected, bound.outputs(set_index), poison=bound.poison_word, hidden=bound.hidden)
    return None if finding is None else PhaseVerdict(finding.status, stage, finding.feedback)


def compare_runs(
    bound: BoundWorkload, first: Sequence[Array], second: Sequence[Array], stage: Stage
) -> PhaseVerdict | None:
    """Return the verdict where a second run on the same inputs, in other buffers, gave other bits."""
    for tensor, one, two in zip(result_tensors(bound.task), first, second, strict=True):
        if not identical(one, two):
            text = f"on {bound.label}: two calls on equal inputs gave different values of {tensor.name!r}"
            return PhaseVerdict(Status.NONDETERMINISTIC, stage, text)
    return None


def is_hopeless(bound: BoundWorkload, seconds: float) -> bool:
    """Say whether a kernel is so slow on a timed workload that the rest of its distributions may be left out.

    The hidden shapes have checked all of them. Otherwise each first step from a slow seed would cost a minute, and no
    user receives a kernel ten times slower than its baseline.
    """
    return seconds > _SLOW_S and seconds * 1e6 > _HOPELESS * bound.least_us


def checks_for(distributions: tuple[str, ...], *, hopeless: bool) -> tuple[str, ...]:
    """Return the distributions that are checked."""
    return distributions[:_HOPELESS_CHECKS] if hopeless else distributions

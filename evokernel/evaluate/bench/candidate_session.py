"""One candidate under judgement: run on inputs that are checked, and timed beside a baseline."""

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
    """What the stages of the cascade ask of a candidate, however it is run."""

    mode: Mode
    artifact: str
    """A hash of what it launches on the search workloads; empty where that is not known."""

    @property
    def bench(self) -> Bench:
        """All that it is judged with."""
        ...

    def compare(self, ground: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run it on a case of each distribution and return what is wrong, or None. Raises `WorkerError`."""
        ...

    def clock(self, ground: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> PairedClock:
        """Return what times it against a baseline. Raises `WorkerError`, `HarnessError`."""
        ...

    def remark(self) -> str:
        """Return what must be said about how it was timed, or nothing."""
        ...

    def sanitize(self) -> Inspection:
        """Look for wrong accesses and races that right outputs do not show. Raises `HarnessError`."""
        ...

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Name what limits it on the heaviest of the search workloads that were timed. Raises `HarnessError`."""
        ...

    def close(self) -> None:
        """End it, and all it started."""
        ...


class WorkerSession:
    """A candidate in a worker of its own. `note` begins what is said about how it was timed."""

    mode = Mode.WORKER
    artifact = ""

    def __init__(self, bench: Bench, artifact: bytes, source: str, *, note: str = "") -> None:
        self.bench = bench
        self.worker = bench.workers.load(artifact, source)
        self._note = note
        self._call_s: dict[BoundWorkload, float] = {}
        self._known: set[str] = set()

    def clock(self, ground: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> WorkerClock:
        """Return what times it on its workers' buffers."""
        self.bench.workers.baselines.choose(baseline, ground)
        ground.attach(self.worker, self._known)
        return WorkerClock(self.bench, self.worker, ground, fresh, stage=stage, call_s=self._call_s[ground])

    def remark(self) -> str:
        """Return why it is in a worker where that is not the rule, and why it was not captured as a graph."""
        return "\n".join(filter(None, (self._note, self.worker.remark())))

    def sanitize(self) -> Inspection:
        """Return nothing: where there are sanitizers for what runs in workers, they come with the build."""
        return Inspection()

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Return that there is no profile: the candidate's own host code would run under the profiler."""
        return Inspection(remarks="not profiled: only what was recorded is run under a profiler")

    def close(self) -> None:
        """End the worker and all it started."""
        self.worker.close()

    def compare(self, ground: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run one call after the other, each from inputs that were not there before it was ready."""
        ground.wipe(min(2, ground.sets))  # an earlier candidate's answers to the same inputs lie there
        ground.attach(self.worker, self._known)
        hopeless, first = False, list[Array]()
        for distribution in distributions:
            if distribution not in checks_for(distributions, hopeless=hopeless):
                break
            seconds = self._call(ground, distribution, 0)
            self._call_s[ground] = min(seconds, self._call_s.get(ground, seconds))
            hopeless = is_hopeless(ground, self._call_s[ground])
            first = first or [output.clone() for output in ground.outputs(0)]
            found = compare_set(ground, 0, distribution, stage)
            if found is not None:
                return found
        if stage is Stage.SMOKE or self.bench.threads > 1 or hopeless:
            return None
        self._call(ground, distributions[0], 1)
        return compare_runs(ground, first, ground.outputs(1), stage)

    def _call(self, ground: BoundWorkload, distribution: str, set_index: int) -> float:
        """Run one call on a case; returns seconds."""
        limit = self.bench.settings.timeout_s
        # Stopped before the inputs are there, the worker cannot prepare anything from them.
        self.worker.prepare(ground.name, first_set=set_index, calls=1, timeout_s=limit)
        ground.put(set_index, ground.case(distribution).inputs)
        return self.worker.go(timeout_s=limit) / 1e9


def compare_set(ground: BoundWorkload, set_index: int, distribution: str, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where what was written to a copy is not what is due for a distribution's inputs."""
    expected = ground.case(distribution).expected
    finding = judge_output(expected, ground.outputs(set_index), poison=ground.poison_word, hidden=ground.hidden)
    return None if finding is None else PhaseVerdict(finding.status, stage, finding.feedback)


def compare_runs(
    ground: BoundWorkload, first: Sequence[Array], second: Sequence[Array], stage: Stage
) -> PhaseVerdict | None:
    """Return the verdict where a second run on the same inputs, in other buffers, gave other bits."""
    for tensor, one, two in zip(result_tensors(ground.task), first, second, strict=True):
        if not identical(one, two):
            text = f"on {ground.label}: two calls on equal inputs gave different values of {tensor.name!r}"
            return PhaseVerdict(Status.NONDETERMINISTIC, stage, text)
    return None


def is_hopeless(ground: BoundWorkload, seconds: float) -> bool:
    """Say whether a kernel is so slow on a timed workload that the rest of its distributions may be left out.

    All of them were checked on the hidden shapes. A seed's first steps would cost a minute each otherwise, and a
    kernel ten times slower than its baseline is not one that somebody is given.
    """
    return seconds > _SLOW_S and seconds * 1e6 > _HOPELESS * ground.least_us


def checks_for(distributions: tuple[str, ...], *, hopeless: bool) -> tuple[str, ...]:
    """Return the distributions that are checked."""
    return distributions[:_HOPELESS_CHECKS] if hopeless else distributions

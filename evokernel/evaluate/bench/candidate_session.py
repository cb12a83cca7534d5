"""Session of one candidate under judgement: it runs on checked inputs, and is timed beside a baseline."""

import time
from collections.abc import Sequence
from typing import Protocol

from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.paired_clock import CheckedCall, PairedClock
from evokernel.evaluate.bench.worker_clock import WorkerClock
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.numerics.arrays import Array, bits, identical
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import result_tensors
from evokernel.evaluate.numerics.odd_shapes import ALONE
from evokernel.evaluate.numerics.result_rounding import is_cut_off
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Mode, Stage, Status
from evokernel.records.timing import Timing

_OVER_CACHE = 2
"""A copy is cold where so many times the second-level cache is touched between two uses of it."""
_NO_RACECHECK = (
    "sums in any order are accepted of kernels without races only, and racecheck of compute-sanitizer cannot run on a "
    "kernel in a worker"
)
_SANITIZED_CALL, _SANITIZED_LOAD = 1000.0, 30.0
"""The most that sanitizers slow all calls of a process, beside the slowest one, and the load of a shared object, a part
of which is our own; both are generous.
"""


class CandidateSession(Protocol):
    """Operations on one candidate for the stages of the cascade, in any mode."""

    mode: Mode
    artifact: str
    """Hash of its launches on the search workloads; empty where they are not known."""
    nondeterministic: bool
    """A check on equal inputs gave other bits, and all of them were within the tolerance."""
    called_s: float
    """Time of all calls in its checks so far, without that of other programs where it can be told, in s."""

    @property
    def bench(self) -> Bench:
        """The bench that judges it."""

    def compare(self, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run it on a case of each distribution, and again on the first; return a verdict on a failure, or None.

        Raises `WorkerError`.
        """

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> PairedClock:
        """Return the clock that times it against a baseline. Raises `WorkerError`, `HarnessError`."""

    def remark(self) -> str:
        """Return a remark for the author on how it was timed, or nothing."""

    def sanitize(self) -> Inspection:
        """Look for wrong accesses and races that right outputs do not show. Raises `HarnessError`."""

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Name its bottleneck on the heaviest timed search workload. Raises `HarnessError`."""

    def close(self) -> None:
        """End it, and all processes it started."""


class WorkerSession:
    """A candidate in a worker of its own. `note` begins the remark on how it was timed."""

    mode = Mode.WORKER
    artifact = ""

    def __init__(self, bench: Bench, artifact: bytes, source: str, *, note: str = "") -> None:
        self.bench = bench
        began = time.monotonic()
        self.worker = bench.workers.load(artifact, source)
        self.nondeterministic = False
        self.called_s = 0.0
        self._program = artifact, source
        self._load_s, self._slowest_s = time.monotonic() - began, 0.0
        self._note = note
        self._checked_ns: dict[BoundWorkload, float] = {}
        """Least time of a check call on the first distribution."""
        self._known: set[str] = set()
        self._zeros_next = False

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> WorkerClock:
        """Return the clock that times it on its worker's buffers."""
        self.bench.workers.baselines.choose(baseline, bound)
        bound.attach(self.worker, self._known)
        checked = CheckedCall(self._checked_ns[bound], lambda: self._checked_anew_ns(bound))
        return WorkerClock(self.bench, self.worker, bound, fresh, stage=stage, checked=checked)

    @property
    def patient_s(self) -> float:
        """The time in which a process under sanitizers ends on the slowest hidden shape, at the very most, in s."""
        return _SANITIZED_LOAD * self._load_s + _SANITIZED_CALL * self._slowest_s

    def remark(self) -> str:
        """Return why it runs in a worker, why it was not captured as a graph, and where its numbers are warm."""
        return "\n".join(filter(None, (self._note, self.worker.remark(), warm_remark(self.bench))))

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
        """Run one call after the other; the inputs of each are written only once the worker is stopped.

        The last one finds zeros in its outputs, or the answer to the inputs of another distribution, by turns.
        """
        bound.wipe(min(2, bound.sets))  # they hold an earlier candidate's answers to the same inputs
        bound.attach(self.worker, set() if bound.workload.name == ALONE else self._known)  # in place of the one before
        first = list[Array]()
        for distribution in distributions:
            elapsed_ns = self._call(bound, distribution, 0)
            if not first:
                self._checked_ns[bound] = elapsed_ns
                first = [output.clone() for output in bound.outputs(0)]
            found = compare_set(bound, 0, distribution, stage)
            if found is not None:
                return found
        if stage is Stage.SMOKE or bound.sets < 2:
            return None
        self._checked_ns[bound] = min(self._checked_ns[bound], self._call(bound, distributions[0], 1, loud=True))
        others = differing(bound, first, bound.outputs(1))
        if others and (self.bench.threads == 1 or self.bench.device.device_class != "cpu"):
            why = "" if self.bench.device.device_class == "cpu" else _NO_RACECHECK
            return other_bits(bound, others, stage, why=why)
        self.nondeterministic |= bool(others)
        found = compare_set(bound, 1, distributions[0], stage) if others else None
        if found is not None or len(distributions) == 1:
            return found
        self._zeros_next = not self._zeros_next
        for output in bound.outputs(0) if self._zeros_next else ():
            bits(output).zero_()
        self._call(bound, distributions[0], 0, poisoned=False)  # a kernel may leave what looks like a result
        return compare_set(bound, 0, distributions[0], stage)

    def _call(
        self, bound: BoundWorkload, distribution: str, set_index: int, *, loud: bool = False, poisoned: bool = True
    ) -> float:
        """Run one call on a case, the outputs poisoned or not as `BoundWorkload.put` says; returns nanoseconds."""
        limit = self.bench.settings.timeout_s
        # The worker is stopped before the inputs are written, so it cannot use them early.
        self.worker.prepare(bound.name, first_set=set_index, calls=1, timeout_s=limit, shut=True)
        bound.put(set_index, bound.case(distribution).inputs, loud=loud, poisoned=poisoned)
        elapsed_ns = self.worker.go(timeout_s=limit)
        self.called_s += elapsed_ns / 1e9
        if bound.kind is WorkloadPurpose.PROBE:  # a busy machine's clock shows more than it ran
            self._slowest_s = max(self._slowest_s, (self.worker.ran_ns or elapsed_ns) / 1e9)
        return elapsed_ns

    def _checked_anew_ns(self, bound: BoundWorkload) -> float:
        """Return the least time of a check call where a new process is asked all checks. Raises `WorkerError`."""
        anew = WorkerSession(self.bench, *self._program)
        try:
            for each in self.bench.workloads:
                anew.compare(each, each.distributions, Stage.CORRECTNESS)
            self._checked_ns[bound] = min(self._checked_ns[bound], anew._checked_ns[bound])
            return self._checked_ns[bound]
        finally:
            anew.close()


def warm_remark(bench: Bench) -> str:
    """Name the workloads on which a GPU's cache may hold a copy of the buffers until it is used again."""
    if bench.device.device_class == "cpu":
        return ""
    least_bytes = _OVER_CACHE * bench.sheet.get("l2_bytes", 0.0)
    warm = [bound.label for bound in bench.timed if bound.calls * bound.set_bytes < least_bytes]
    if not warm:
        return ""
    return f"warm: a batch touches less than twice the second-level cache on {', '.join(dict.fromkeys(warm))}"


def compare_set(bound: BoundWorkload, set_index: int, distribution: str, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where the outputs in one copy are wrong for a distribution's inputs."""
    expected, outputs = bound.case(distribution).expected, bound.outputs(set_index)
    finding = judge_output(expected, outputs, poison=bound.poison_word, hidden=bound.hidden)
    if finding is not None:
        return PhaseVerdict(finding.status, stage, finding.feedback)
    for output, array in zip(expected.outputs, outputs, strict=True):
        if is_cut_off(output, array):
            text = f"on {bound.label}: {output.tensor.name!r} is cut off to {output.tensor.dtype}; round it to nearest"
            return PhaseVerdict(Status.NUMERICAL, stage, text)
    return None


def differing(bound: BoundWorkload, first: Sequence[Array], second: Sequence[Array]) -> list[str]:
    """Return the outputs of which a second run on the same inputs, in other buffers, gave other bits."""
    results = zip(result_tensors(bound.task), first, second, strict=True)
    return [tensor.name for tensor, one, two in results if not identical(one, two)]


def other_bits(bound: BoundWorkload, names: Sequence[str], stage: Stage, *, why: str = "") -> PhaseVerdict:
    """Return the verdict on other bits of some outputs; `why` says, as a sentence, why that is not accepted."""
    text = f"on {bound.label}: two calls on equal inputs gave different values of {names[0]!r}"
    return PhaseVerdict(Status.NONDETERMINISTIC, stage, f"{text}; {why}" if why else text)

"""A recorded candidate under judgement: the runner has its kernels, and its host code does not run."""

import math
from collections.abc import Sequence

from evokernel.errors import WorkerError
from evokernel.evaluate.artifact_mode.checked_build import CheckedBuild
from evokernel.evaluate.artifact_mode.clock import ArtifactClock, Loaded
from evokernel.evaluate.artifact_mode.runner_pool import Batch, BatchTimes
from evokernel.evaluate.artifact_mode.tools import ArtifactTools
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import checks_for, compare_runs, compare_set, is_hopeless
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.sanitizer import MEMCHECK, RACECHECK
from evokernel.evaluate.instruments.tool_run import RecordedCall, RecordedTensor
from evokernel.evaluate.instruments.tools import SANITIZER
from evokernel.evaluate.numerics.arrays import raw_bytes, synchronize
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Mode, Stage, Timing

_MAX_WORD = 1 << 32
_RACECHECKED = 2
"""Calls under racecheck, which takes longer: one on a search workload, one on a hidden shape."""
_HANDED_OVER = 2 << 30
"""Largest total of one call's buffers, in bytes, that is handed to another process."""
_TOO_LARGE = "the workloads are too large to be handed to another process"


class ArtifactSession:
    """One candidate in the runner. Raises `WorkerError` where the driver refuses its kernels."""

    mode = Mode.ARTIFACT

    def __init__(self, bench: Bench, tools: ArtifactTools, checked: CheckedBuild) -> None:
        self.bench = bench
        self._tools = tools
        self._runner = tools.runners.take()
        self._runner.load(checked.as_message(), checked.cubins, timeout_s=bench.settings.timeout_s)
        self._shapes = shape_numbers(bench.workloads)
        self._call_ns: dict[BoundWorkload, float] = {}
        self._checked = checked
        self.artifact = checked.digest(len(bench.task.workloads[bench.device.device_class].search))

    def compare(self, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run one call on the first distribution, then the others and a repetition in one batch."""
        bound.poison_all(bound.sets)  # answers of an earlier candidate to the same inputs lie in other copies
        fired = self._run(bound, {0: distributions[0]})
        found = compare_set(bound, 0, distributions[0], stage)
        self._call_ns[bound] = max(fired.device_ns, 1.0)
        hopeless = is_hopeless(bound, fired.device_ns / 1e9)
        rest = checks_for(distributions, hopeless=hopeless)[1:]
        if found is not None or stage is Stage.SMOKE:
            return found
        cases = dict(enumerate((*rest, distributions[0]), start=1))
        self._run(bound, cases)
        for number, distribution in list(cases.items())[:-1]:
            found = found or compare_set(bound, number, distribution, stage)
        return found or compare_runs(bound, bound.outputs(0), bound.outputs(len(cases)), stage)

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> ArtifactClock:
        """Return the clock that times it on the runner's buffers."""
        self._attach(bound)
        return ArtifactClock(
            self.bench,
            bound,
            fresh,
            stage=stage,
            candidate=Loaded(self._runner, self._shapes[bound], self._call_ns[bound]),
            baselines=self._tools.baselines.batches(bound, baseline, timed=bound.calls),
            verifier=self._tools.verifiers.of(bound),
        )

    def remark(self) -> str:
        """Return nothing: this is the usual mode."""
        return ""

    def sanitize(self) -> Inspection:
        """Run calls under memcheck and racecheck: on the smallest search workload, and on small hidden shapes."""
        smallest = [
            sorted(workloads, key=lambda bound: bound.set_bytes)[:count]
            for workloads, count in ((self._search, 1), (self.bench.probes, 2))
        ]
        calls = [
            self._recorded(bound) for workloads in smallest for bound in workloads if bound.set_bytes <= _HANDED_OVER
        ]
        if not calls:
            return Inspection(remarks=f"not checked by {SANITIZER}: {_TOO_LARGE}")
        work = [(MEMCHECK, call) for call in calls] + [(RACECHECK, call) for call in calls[:_RACECHECKED]]
        return self._tools.sanitizer.check(work)

    def profile(self, timings: Sequence[Timing]) -> Inspection:
        """Read hardware counters on the search workload with most to gain, among those small enough to hand over."""
        workloads = [bound for bound in self._search if bound.set_bytes <= _HANDED_OVER]
        if not workloads:
            return Inspection(remarks=f"not profiled: {_TOO_LARGE}")
        gains = {timing.workload: timing.to_gain for timing in timings}
        chosen = max(workloads, key=lambda bound: gains.get(bound.workload.name, -math.inf))
        return self._tools.profiler.profile(self._recorded(chosen))

    @property
    def _search(self) -> list[BoundWorkload]:
        return [bound for bound in self._shapes if bound.kind is WorkloadPurpose.SEARCH]

    def _recorded(self, bound: BoundWorkload) -> RecordedCall:
        """Return the call on a workload, with the inputs of its first distribution."""
        plan = self._checked.plans.shapes[self._shapes[bound]]
        inputs = bound.case(bound.task.distributions[0]).inputs
        buffers = [
            RecordedTensor(
                tensor.name,
                tensor.bytes_at(bound.workload.sizes),
                raw_bytes(inputs[tensor.name]) if tensor.name in inputs else None,
            )
            for tensor in bound.task.signature.tensors
        ]
        used = {launch.cubin for launch in plan.launches}
        cubins = {digest: self._checked.cubins[digest] for digest in used}
        return RecordedCall(bound.label, plan.as_message(), cubins, buffers, hidden=bound.hidden)

    def close(self) -> None:
        """Unload the kernels; end a runner that fails to."""
        if self._runner.alive:
            try:
                self._runner.drop()
            except WorkerError:
                self._runner.close()

    def _attach(self, bound: BoundWorkload) -> None:
        bound.attach(self._runner, self._runner.known)

    def _run(self, bound: BoundWorkload, cases: dict[int, str]) -> BatchTimes:
        """Run one call on each of some copies, each filled with the case of a distribution."""
        limit, poison = self.bench.settings.timeout_s, int(self.bench.rng.integers(_MAX_WORD))
        self._attach(bound)
        self._runner.arm(Batch(bound.name, self._shapes[bound], list(cases), poison))
        for number, distribution in cases.items():
            bound.put(number, bound.case(distribution).inputs)
        synchronize(bound.device)
        self._runner.armed(limit)
        return self._runner.fire(limit)


def shape_numbers(workloads: Sequence[BoundWorkload]) -> dict[BoundWorkload, int]:
    """Return the number of each workload's shape in a build: search workloads first, then hidden ones."""
    search = [bound for bound in workloads if bound.kind is WorkloadPurpose.SEARCH]
    hidden = [bound for bound in workloads if bound.kind is not WorkloadPurpose.SEARCH]
    return {bound: number for number, bound in enumerate((*search, *hidden))}

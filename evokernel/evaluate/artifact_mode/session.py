"""A recorded candidate under judgement: the runner has its kernels, and its host code does not run."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evokernel.errors import WorkerError
from evokernel.evaluate.artifact_mode.baselines import DeviceBaselines
from evokernel.evaluate.artifact_mode.build_checks import CheckedBuild
from evokernel.evaluate.artifact_mode.clock import ArtifactClock, Loaded, paced_calls
from evokernel.evaluate.artifact_mode.output_comparison import OutputComparisons
from evokernel.evaluate.artifact_mode.parameters import Place
from evokernel.evaluate.artifact_mode.plan import Copy, LaunchPlan, RecordedLaunch
from evokernel.evaluate.artifact_mode.runner_pool import Batch, BatchTimes, RunnerPool
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import compare_set, differing, other_bits
from evokernel.evaluate.bench.paired_clock import CheckedCall, late_places
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.inside.driver.cubin_facts import atomic_kernels
from evokernel.evaluate.inside.driver.kernel_parameters import TensorMap
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.profiler import Profiler
from evokernel.evaluate.instruments.sanitizer import MEMCHECK, RACECHECK, Sanitizer, Tool
from evokernel.evaluate.instruments.tool_run import RecordedCall, RecordedTensor, ToolRunner
from evokernel.evaluate.instruments.tools import SANITIZER
from evokernel.evaluate.numerics.arrays import synchronize
from evokernel.evaluate.numerics.canary import stored_bytes
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Mode, Stage
from evokernel.records.timing import Timing
from evokernel.task import Role

_MAX_WORD = 1 << 32
_POISONED = 0.75
"""Share of the batches of checks in which scratch holds a random word at first; in the others it holds zeros."""
_RACECHECKED, _RACECHECKED_FLOPS = 2, 5e9
"""Calls under racecheck, and the arithmetic of one, at most: a product of 7e10 took 26 s."""
_TOGETHER = 0.5
"""Largest share of the time limit that the checks of a workload may take in one batch; longer ones get one each."""
_HANDED_OVER = 2 << 30
"""Largest total of one call's buffers, in bytes, that is handed to another process."""
_ANY_ORDER = f"sums by atomic operations are accepted where racecheck of {SANITIZER} finds no race, and it did not run:"
_TOO_LARGE = "the workloads are too large to be handed to another process"


@dataclass(frozen=True)
class ArtifactTools:
    """Tools that run, compare and inspect recorded candidates."""

    runners: RunnerPool
    """The runner in use, and its standby."""
    baselines: DeviceBaselines
    """Baselines in the judge's own context."""
    comparisons: OutputComparisons
    """Comparison of outputs, by workload."""
    sandbox: Sandbox
    """Confinement of instruments, where they work in it."""
    cores: tuple[int, ...]
    """The cores that instruments run on."""
    multiprocessors: int
    """Multiprocessors of the GPU."""

    @cached_property
    def profiler(self) -> Profiler:
        """The reader of hardware counters of recorded calls; looked up at the first use."""
        return Profiler(ToolRunner(self.sandbox, cpus=self.cores), multiprocessors=self.multiprocessors)

    @cached_property
    def sanitizer(self) -> Sanitizer:
        """The check for wrong accesses and races in recorded calls; looked up at the first use."""
        return Sanitizer(ToolRunner(self.sandbox, cpus=self.cores))


class ArtifactSession:
    """One candidate in the runner. Raises `WorkerError` where the driver refuses its kernels."""

    mode = Mode.ARTIFACT

    def __init__(self, bench: Bench, tools: ArtifactTools, checked: CheckedBuild) -> None:
        self.bench = bench
        self._tools = tools
        self._runner = tools.runners.take()
        self._checked = checked
        self._load()
        self._shapes = bench.shape_numbers
        self._checked_ns: dict[BoundWorkload, float] = {}
        """Time of the first call, alone in its batch."""
        self.nondeterministic = False
        self.called_s = 0.0
        self._racecheck: Inspection | None = None
        self.artifact = checked.digest(len(bench.task.workloads[bench.device.device_class].search))

    def compare(self, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage) -> PhaseVerdict | None:
        """Run one call on the first distribution, then the others and a repetition in one batch.

        A workload with one copy gets one call. On a timed workload that batch looks like a timed one: as many calls, in
        an order of its own, most of them on contents of timed calls. So no call can tell a check by the calls before
        it. Where that would take long each case gets a batch, so that a slow kernel has the time limit for each call.
        """
        bound.poison_all(bound.sets)  # answers of an earlier candidate to the same inputs lie in other copies
        self._checked_ns[bound] = max(self._run(bound, {0: distributions[0]}, order=[0]).device_ns, 1.0)
        found = compare_set(bound, 0, distributions[0], stage)
        if found is not None or stage is Stage.SMOKE or bound.sets == 1:
            return found
        first, count = [output.clone() for output in bound.outputs(0)], len(distributions)
        bound.poison_all(bound.sets)
        long = self._checked_ns[bound] * count > _TOGETHER * 1e9 * self.bench.settings.timeout_s
        order = list(range(count)) if long else self._order(bound, least=count)
        *others, again = late_places(self.bench.rng, order, count)
        cases = dict(zip(others, distributions[1:], strict=True)) | {again: distributions[0]}
        for batch in [{number: name} for number, name in cases.items()] if long else [cases]:
            self._run(bound, batch, order=list(batch) if long else order, loud=again)
        for number, distribution in list(cases.items())[:-1]:
            found = found or compare_set(bound, number, distribution, stage)
        names = differing(bound, first, bound.outputs(again))
        if found is not None or not names:
            return found
        found = self._unexplained(bound, names, stage) or compare_set(bound, again, distributions[0], stage)
        return found or self._races(bound, names, stage)

    def _order(self, bound: BoundWorkload, *, least: int) -> list[int]:
        """Return the copies of a batch of checks in their order; those of a timed workload get new contents."""
        if bound not in self.bench.timed:
            return list(range(least))
        fresh = FreshInputs(bound.task, bound.workload, self.bench.rng, device=bound.device)
        fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.sets))
        calls = max(least, paced_calls(bound, self._checked_ns[bound]))
        return [int(number) for number in self.bench.rng.permutation(bound.sets)[:calls]]

    def clock(self, bound: BoundWorkload, fresh: FreshInputs, *, baseline: str, stage: Stage) -> ArtifactClock:
        """Return the clock that times it on the runner's buffers."""
        self._attach(bound)
        return ArtifactClock(
            self.bench,
            bound,
            fresh,
            stage=stage,
            candidate=Loaded(self._runner, self._shapes[bound], self._checked_call(bound)),
            baselines=self._tools.baselines.batches(bound, baseline, timed=bound.calls),
            usual_ns=1e3 * bound.baseline_us[baseline],
            comparison=self._tools.comparisons.of(bound),
        )

    def remark(self) -> str:
        """Return nothing: this is the usual mode."""
        return ""

    def sanitize(self) -> Inspection:
        """Run calls under memcheck and racecheck: on the smallest search workload, and on small hidden shapes."""
        small = self._small()
        if not small:
            return Inspection(remarks=f"not checked by {SANITIZER}: {_TOO_LARGE}")
        return self._tools.sanitizer.check([*((MEMCHECK, self._recorded(bound)) for bound in small), *self._raced()])

    def _small(self) -> list[BoundWorkload]:
        smallest = [
            sorted(workloads, key=lambda bound: bound.set_bytes)[:count]
            for workloads, count in ((self._search, 1), (self.bench.probes, 2))
        ]
        return [bound for workloads in smallest for bound in workloads if bound.set_bytes <= _HANDED_OVER]

    def _raced(self) -> list[tuple[Tool, RecordedCall]]:
        """Return calls for racecheck: of small ones the first few of little arithmetic, or else the one of least."""
        flops = {bound: self.bench.task.flops_at(bound.workload) for bound in self._small()}
        quick = [bound for bound in flops if flops[bound] <= _RACECHECKED_FLOPS][:_RACECHECKED]
        chosen = quick or sorted(flops, key=lambda bound: flops[bound])[:1]
        return [(RACECHECK, self._recorded(bound)) for bound in chosen]

    def _unexplained(self, bound: BoundWorkload, names: Sequence[str], stage: Stage) -> PhaseVerdict | None:
        """Return the verdict on other bits of outputs that no atomic operation leads to."""
        plan = self._checked.plans.shapes[self._shapes[bound]]
        atomic = {launch.cubin: atomic_kernels(self._checked.cubins[launch.cubin]) for launch in plan.launches}
        inputs = [tensor.name for tensor in bound.task.signature.tensors if tensor.role is Role.INPUT]
        rest = sorted(set(names).difference(atomic_results(plan, atomic, read_only=inputs)))
        return other_bits(bound, rest, stage, why="no atomic operation explains that") if rest else None

    def _races(self, bound: BoundWorkload, names: Sequence[str], stage: Stage) -> PhaseVerdict | None:
        """Return the verdict on other bits where racecheck finds a race or cannot run; mark others. It runs once."""
        if self._racecheck is None:
            work = self._raced()
            unable = Inspection(remarks=f"{SANITIZER}: {_TOO_LARGE}")
            self._racecheck = self._tools.sanitizer.check(work) if work else unable
        found = self._racecheck
        if found.verdict is None and not found.complete:
            return other_bits(bound, names, stage, why=f"{_ANY_ORDER} {found.remarks}")
        self.nondeterministic |= found.verdict is None
        return found.verdict

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
                tensor.storage_bytes_at(bound.workload.sizes),
                stored_bytes(tensor, inputs[tensor.name], bound.workload.sizes) if tensor.name in inputs else None,
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

    def _load(self) -> None:
        self._runner.load(self._checked.as_message(), self._checked.cubins, timeout_s=self.bench.settings.timeout_s)

    def _checked_call(self, bound: BoundWorkload) -> CheckedCall:
        return CheckedCall(self._checked_ns[bound], lambda: self._checked_anew_ns(bound))

    def _checked_anew_ns(self, bound: BoundWorkload) -> float:
        """Return the least time of a check call where the kernels, loaded anew, are asked all checks and then it again.

        Raises `WorkerError`.
        """
        least_ns = self._checked_ns[bound]
        self._load()
        for each in self.bench.workloads:
            self.compare(each, each.distributions, Stage.CORRECTNESS)
        again = self._run(bound, {0: bound.distributions[0]}, order=[0]).device_ns
        self._checked_ns[bound] = min(least_ns, self._checked_ns[bound], again)
        return self._checked_ns[bound]

    def _attach(self, bound: BoundWorkload) -> None:
        bound.attach(self._runner, self._runner.known)

    def _run(
        self, bound: BoundWorkload, cases: dict[int, str], *, order: list[int], loud: int | None = None
    ) -> BatchTimes:
        """Run one call on each copy of an order, some of them filled with the case of a distribution.

        The outputs of one copy may be `loud`, as `BoundWorkload.put` says.
        """
        limit, rng = self.bench.settings.timeout_s, self.bench.rng
        # memory that nobody has used yet is 0 for a user, too
        poison = int(rng.integers(_MAX_WORD)) if rng.random() < _POISONED else 0
        self._attach(bound)
        self._runner.arm(Batch(bound.name, self._shapes[bound], order, poison))
        for number, distribution in cases.items():
            # the last one repeats the first, and must not use what its outputs hold
            bound.put(number, bound.case(distribution).inputs, loud=number == loud)
        synchronize(bound.device)
        self._runner.armed(limit)
        times = self._runner.fire(limit)
        self.called_s += times.outer_ns / 1e9
        return times


def atomic_results(plan: LaunchPlan, atomic: Mapping[str, Collection[str]], *, read_only: Collection[str]) -> set[str]:
    """Return the buffers whose content may come from atomic operations.

    They are those given to a kernel with such operations, and those given to a kernel beside one of these.

    Args:
        atomic: by SHA-256 of a cubin, its kernels with atomic operations.
        read_only: buffers that no kernel can write.
    """
    found = set[str]()
    for step in plan.steps:
        match step:
            case RecordedLaunch():
                buffers = set(_buffers(step)).difference(read_only)
                if step.kernel in atomic[step.cubin] or buffers & found:
                    found |= buffers
            case Copy(place=target, source=source) if source.buffer in found:
                found.add(target.buffer)
    return found


def _buffers(launch: RecordedLaunch) -> Iterator[str]:
    for parameter in launch.parameters:
        value = parameter.value.base if isinstance(parameter.value, TensorMap) else parameter.value
        if isinstance(value, Place):
            yield value.buffer

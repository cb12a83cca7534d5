"""The bench of a judge: task, workloads with their buffers, baselines, and the parts that run candidates."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from evokernel.errors import TaskError
from evokernel.evaluate.bench.check_admission import refusal_of
from evokernel.evaluate.bench.floor_work import Work, needed_work
from evokernel.evaluate.bench.groundwork import Groundwork, timed
from evokernel.evaluate.bench.parts import BaselineAnchors, BenchDevice, WorkerHost
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose, spare_memory
from evokernel.evaluate.device.cpu_roofline import best_of
from evokernel.evaluate.numerics.arrays import release_unused
from evokernel.evaluate.worker_mode.expert_loop import EXPERT
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.timing import Floor
from evokernel.task import Workload
from evokernel.tasks import builtin_tasks

_COUNTED_BYTES = 1 << 20


class Bench:
    """Set up once per judge process, by a context that ends the processes it started.

    Args:
        anchors: times baselines; it has timed the workloads.
        workloads: all workloads, hidden ones first.
        bind_added: returns the workload of a hidden check that the run has added, with its buffers.
        baselines: their names, that of a user's kernel among them.
    """

    def __init__(  # noqa: PLR0913 - each is a part that its opener has started
        self,
        setup: BenchSetup,
        groundwork: Groundwork,
        *,
        device: BenchDevice,
        workers: WorkerHost,
        anchors: BaselineAnchors,
        workloads: tuple[BoundWorkload, ...],
        bind_added: Callable[[HiddenCheck], BoundWorkload],
        baselines: Iterable[str],
        sheet: dict[str, float],
    ) -> None:
        self.settings = setup.settings
        self.threads = setup.threads
        self.final = setup.final
        self.task = groundwork.task
        self.sandbox = groundwork.sandbox
        self.rng = groundwork.rng
        self.device = device
        self.workers = workers
        self.workloads = workloads
        self.fenced: tuple[BoundWorkload, ...] = ()
        """Hidden workloads whose buffers lie against pages without access."""
        self.odd: tuple[BoundWorkload, ...] = ()
        """Hidden workloads of shapes that no other has, in buffers like all others: a kernel sees nothing of fences."""
        self.bind_alone: Callable[[Workload], BoundWorkload] | None = None
        """Returns one more hidden workload for one candidate; None where kernels are compiled for shapes."""
        self.panel = tuple(baselines)
        """The names of the baselines."""
        self.sheet = sheet
        self._groundwork = groundwork
        self._own = workloads
        self._bind_added = bind_added
        self._added: dict[str, BoundWorkload] = {}
        self._anchors = anchors
        self._trusted = setup.task_spec in builtin_tasks()
        self._needed: dict[BoundWorkload, Work] = {}
        """Work on workloads where a candidate was faster than what the task counts allows."""

    @property
    def timed(self) -> tuple[BoundWorkload, ...]:
        """The workloads that are timed: search ones, and held-out ones for a winner."""
        return timed(self.workloads)

    @property
    def probes(self) -> tuple[BoundWorkload, ...]:
        """The hidden workloads."""
        return tuple(bound for bound in self.workloads if bound.kind is WorkloadPurpose.PROBE)

    @property
    def added(self) -> tuple[BoundWorkload, ...]:
        """The hidden checks that the run has added."""
        return tuple(bound for bound in self.workloads if bound.kind is WorkloadPurpose.ADDED)

    def take_checks(self, checks: Sequence[HiddenCheck]) -> None:
        """Let the workloads be the bench's own and these checks, in this order. Raises `TaskError`, `HarnessError`."""
        for check in checks:
            if check.digest not in self._added:
                self._added[check.digest] = self._bind_added(check)
        self.workloads = (*self._own, *(self._added[check.digest] for check in checks))

    def refusal_of(self, check: HiddenCheck) -> str:
        """Return why a check is not fit for the task, or nothing."""
        ground = self._groundwork
        return refusal_of(self.task, ground.device_class, check, rng=self.rng, device=ground.device_class)

    @property
    def hidden_shapes(self) -> list[dict[str, int | float]]:
        """Shapes beside the search workloads that kernels are called with; empty unless kernels compile for shapes."""
        if not self.device.compiles_for_shapes:
            return []
        return [dict(bound.workload.dims) for bound in self._compiled_for]

    @property
    def shape_numbers(self) -> dict[BoundWorkload, int]:
        """The number of each workload's shape in a build: search workloads, hidden ones, and those that were added."""
        search = [bound for bound in self._own if bound.kind is WorkloadPurpose.SEARCH]
        return {bound: number for number, bound in enumerate((*search, *self._compiled_for, *self.added))}

    @property
    def _compiled_for(self) -> tuple[BoundWorkload, ...]:
        """The hidden workloads in the order in which kernels are compiled for them."""
        return (*(bound for bound in self._own if bound.kind is not WorkloadPurpose.SEARCH), *self.odd)

    def floor(self, bound: BoundWorkload) -> Floor:
        """Return the least time the device could need for a workload."""
        work = self._needed.get(bound) or Work.counted(self.task, bound.workload)
        return self.device.floor(self.task, work, self.sheet)

    def add_expert(self, expert: str) -> None:
        """Make a user's kernel one of the baselines, and time all of them again. Raises `HarnessError`."""
        self._anchors.load_expert(expert)
        self.panel = tuple(dict.fromkeys((*self.panel, EXPERT)))
        self._anchors.anchor(self.timed, self._groundwork.fresh_inputs, panel=self.panel)

    def spare_memory(self, current: BoundWorkload) -> None:
        """Forget secret inputs of other workloads where all together take too much of the device's memory."""
        spare_memory((*self.workloads, *self._large_alone), current, most_bytes=self.device.case_bytes)

    @cached_property
    def _large_alone(self) -> tuple[BoundWorkload, ...]:
        """The workloads beside those of `workloads` whose cases take memory that counts: most are tiny, and many."""
        return tuple(bound for bound in (*self.odd, *self.fenced) if bound.set_bytes > _COUNTED_BYTES)

    def begin_timing(self) -> None:
        """Forget all cases of a final measurement, which has made its checks: its clock needs the memory."""
        if self.final:
            for bound in (*self.workloads, *self.odd):
                bound.forget_cases()
            release_unused(self._groundwork.device_class)

    def repair(self) -> None:
        """Renew guard bars that a candidate has broken, so that the next one is not blamed."""
        for bound in (*self.workloads, *self.fenced, *self.odd):
            if bound.broken_guards():
                bound.resize(bound.sets)

    def remeasure(self) -> None:
        """Measure the device once more, before a candidate is called impossible."""
        self.sheet = best_of(self.sheet, self.device.measure())

    def recount(self, bound: BoundWorkload) -> None:
        """Count anew what a workload needs, before a candidate is called impossible; the first time takes seconds."""
        if bound in self._needed:
            return
        device = self._groundwork.device_class
        try:
            found = needed_work(self.task, bound.workload, self.rng, device=device, trusted=self._trusted)
        except TaskError:  # no memory for it beside the buffers of a clock, say
            found = Work.counted(self.task, bound.workload)
        self._needed[bound] = found
        release_unused(device)

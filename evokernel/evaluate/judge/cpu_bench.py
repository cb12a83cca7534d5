"""The bench of a processor: shared memory, C++ workers, the clock on cores of its own."""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import WorkerSession
from evokernel.evaluate.bench.floor_work import Work
from evokernel.evaluate.bench.groundwork import (
    Groundwork,
    bind_added,
    bind_workloads,
    lay_groundwork,
    pin_to,
    timed,
    with_answers,
)
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose, draw_ahead
from evokernel.evaluate.build.confined_compilers import sandbox_for
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.device.cores import busy_s
from evokernel.evaluate.device.cpu_roofline import cache_folder, device_name, floor_of, measure_device
from evokernel.evaluate.memory.arena import EndFencedArena, FencedArena, HostArena
from evokernel.evaluate.numerics.odd_shapes import (
    fenced_workloads,
    large_tailed_workloads,
    lopsided_workloads,
    searched_tailed_workloads,
    tailed_workloads,
    tiled_workloads,
)
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.sandbox.limits import WorkerLimits
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess, panel_functions
from evokernel.evaluate.worker_mode.cpu_pool import Worker, WorkerPool
from evokernel.evaluate.worker_mode.expert_loop import EXPERT
from evokernel.evaluate.worker_mode.trampoline import build_trampoline
from evokernel.records.timing import Floor
from evokernel.task import DTYPES, Task, Workload
from evokernel.tasks import load_task

_SETS_BYTES = 64 << 20
_SETS = 2
"""Least number of buffer copies of a workload."""
_BATCH_S, _FIRST_CALL_S = 0.003, 120.0
_MOST_CALLS = 512
_TAKEN_SHARE = 0.05
"""Others that take more of the cores of candidates may be why times are doubtful."""


@dataclass(frozen=True, slots=True)
class CpuBench:
    """A bench on the processor."""

    bench: Bench
    """Workloads, baselines and device."""

    def open_session(self, artifact: bytes, source: str) -> WorkerSession:
        """Begin the judgement of one candidate. Raises `WorkerError` where it cannot be loaded, `HarnessError`."""
        return WorkerSession(self.bench, artifact, source)


@contextmanager
def open_cpu_bench(setup: BenchSetup) -> Iterator[CpuBench]:
    """Set up a bench that judges compiled C++ on the processor; leaving it ends the processes.

    Raises:
        TaskError: the task cannot be loaded or is not fit to judge candidates.
        LanguageError: there is no compiler.
        HarnessError: the machinery failed.
    """
    pin_to(setup.cores.untimed)  # torch is imported on one core while this process works on another
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as helpers:  # they import torch in parallel
            starting = helpers.submit(_start_baselines, setup, stack)
            sandbox, task = sandbox_for(setup.settings), load_task(setup.task_spec).on("cpu")
            task = confine_generators(task, setup.task_spec, sandbox=sandbox)
            opening = helpers.submit(_open_workers, setup, task, sandbox, stack)
            groundwork = lay_groundwork(setup, task, sandbox, device_class="cpu")

            def make_arena(workload: Workload, sets: int) -> HostArena:
                return HostArena.for_signature(task.signature, workload.sizes, sets=sets)

            workloads = bind_workloads(setup, groundwork, make_arena=make_arena, sets=_SETS, stack=stack)
            fenced, odd = _bind_fenced(groundwork, workloads, stack), _bind_odd(setup, groundwork, stack)
            device = Processor(setup.cores.runners)
            cases = [(bound, each) for bound in workloads for each in bound.distributions]
            cases += [(bound, task.distributions[0]) for bound in (*odd, *fenced)]
            draw_ahead(cases, until=starting.done, most_bytes=device.case_bytes)
            baselines, pool = starting.result(), opening.result()
        pin_to(setup.cores.judge)
        panel = [*panel_functions(task, max_autotune=setup.final and setup.settings.max_autotune)]
        sheet = dict(setup.sheet) or device.measure()
        anchors = ProcessAnchors(baselines, pool)
        if setup.expert:
            anchors.load_expert(setup.expert)
            panel.append(EXPERT)
        anchors.anchor(timed(workloads), groundwork.fresh_inputs, panel=panel)
        bench = Bench(
            setup,
            groundwork,
            device=device,
            workers=CpuWorkers(pool, baselines, setup.settings.timeout_s),
            anchors=anchors,
            workloads=workloads,
            bind_added=partial(bind_added, groundwork=groundwork, make_arena=make_arena, sets=_SETS, stack=stack),
            baselines=panel,
            sheet=sheet,
        )
        bench.fenced, bench.odd, bench.bind_alone = fenced, odd, partial(_bind_alone, HostArena, groundwork)
        yield CpuBench(bench)


def _bind_fenced(
    groundwork: Groundwork, workloads: Sequence[BoundWorkload], stack: ExitStack
) -> tuple[BoundWorkload, ...]:
    """Return hidden workloads with a page without access right before, or right behind, each buffer."""
    task, offered, found = groundwork.task, groundwork.task.workloads["cpu"], []
    probes = [bound.workload for bound in workloads if bound.kind is WorkloadPurpose.PROBE]
    kinds = (FencedArena, EndFencedArena)
    pairs = [*itertools.product(fenced_workloads(task, probes, offered), kinds)]
    pairs += zip(tailed_workloads(task, offered, groundwork.rng), itertools.cycle(kinds), strict=False)
    once = {(str(workload.dims), kind): workload for workload, kind in pairs}  # ranges may be narrow
    for (_, kind), workload in once.items():
        found.append(_bind_alone(kind, groundwork, workload))
        stack.callback(found[-1].close)
    return with_answers(groundwork, found)


def _bind_odd(setup: BenchSetup, groundwork: Groundwork, stack: ExitStack) -> tuple[BoundWorkload, ...]:
    """Return hidden workloads of odd shapes."""
    task, offered, rng = groundwork.task, groundwork.task.workloads["cpu"], groundwork.rng
    kinds = [lopsided_workloads, tiled_workloads, large_tailed_workloads]
    kinds += [searched_tailed_workloads] if setup.final else []
    shapes = [shape for kind in kinds for shape in kind(task, offered, rng)]
    found = tuple(_bind_alone(HostArena, groundwork, workload) for workload in shapes)
    for bound in found:
        stack.callback(bound.close)
    return with_answers(groundwork, found)


def _bind_alone(kind: type[HostArena], groundwork: Groundwork, workload: Workload) -> BoundWorkload:
    make = partial(_arena, kind, groundwork.task, workload)
    return BoundWorkload(groundwork.task, workload, WorkloadPurpose.PROBE, groundwork.rng, make_arena=make, sets=1)


def _arena(kind: type[HostArena], task: Task, workload: Workload, sets: int) -> HostArena:
    return kind.for_signature(task.signature, workload.sizes, sets=sets)


def _start_baselines(setup: BenchSetup, stack: ExitStack) -> BaselineTimer:
    process = BaselineProcess(setup.task_spec, threads=setup.threads, cpus=setup.cores.runners)
    return BaselineTimer(stack.enter_context(process), batch_s=_BATCH_S, first_call_s=_FIRST_CALL_S)


def _open_workers(setup: BenchSetup, task: Task, sandbox: Sandbox, stack: ExitStack) -> WorkerPool:
    pin_to(setup.cores.judge)  # the zygote stays where this thread is
    trampoline = build_trampoline(task.signature, cache_folder())
    limits = WorkerLimits(
        memory_bytes=setup.settings.memory_mib << 20,
        cpu_s=int(setup.settings.timeout_s * 30 * setup.threads) + 1,
        threads=setup.threads,
        cpus=setup.cores.runners,
    )
    return stack.enter_context(WorkerPool(trampoline, sandbox=sandbox, limits=limits))


@dataclass(frozen=True, slots=True)
class Processor:
    """The processor as a device of a bench; see `BenchDevice`."""

    device_class: ClassVar[str] = "cpu"
    timed_share: ClassVar[float] = 1.0
    compiles_for_shapes: ClassVar[bool] = False
    runners: tuple[int, ...]
    """The cores that candidates and baselines run on."""

    @property
    def name(self) -> str:
        """The processor's model."""
        return device_name()

    @property
    def case_bytes(self) -> int:
        """A quarter of the machine's memory."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4

    def measure(self) -> dict[str, float]:
        """Return the device sheet."""
        return measure_device(self.runners, cache_folder())

    def floor(self, task: Task, work: Work, sheet: Mapping[str, float]) -> Floor:
        """Return the least time of peak arithmetic and memory; the sheet's peak is that of fp32 and wider."""
        dtypes = {*work.dtypes, *(tensor.dtype for tensor in task.signature.tensors)} - {"bool"}
        narrow = any(DTYPES[dtype] < 4 for dtype in dtypes)
        return floor_of(0 if narrow else work.flops, work.bytes, sheet)

    def quiet(self) -> str:
        """Return nothing: the engine keeps compilers away from a running clock."""
        return ""

    def lease(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()

    def left_running(self) -> bool:
        """Return False: a stopped process cannot run on a processor."""
        return False

    def pause(self, seconds: float) -> bool:
        """Leave the cores of candidates alone for so long; say whether other programs took a share of them."""
        before = busy_s(self.runners)
        time.sleep(seconds)
        return busy_s(self.runners) - before > _TAKEN_SHARE * seconds * len(self.runners)

    def conditions(self) -> dict[str, float]:
        """Return nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class CpuWorkers:
    """Workers of compiled C++; see `WorkerHost`."""

    pool: WorkerPool
    """Starts workers."""
    baselines: BaselineTimer
    """The baseline process."""
    timeout_s: float
    """Limit of loading a candidate, in s."""

    def load(self, artifact: bytes, source: str) -> Worker:
        """Start a worker with a shared object in it. Raises as `WorkerPool.load`."""
        return self.pool.load(artifact, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True)
class ProcessAnchors:
    """Times baselines in the baseline process; see `BaselineAnchors`."""

    baselines: BaselineTimer
    """The baseline process."""
    pool: WorkerPool
    """Its trampoline calls a user's kernel."""

    def load_expert(self, expert: str) -> None:
        """Load a shared object into the baseline process."""
        self.baselines.process.add_expert(expert, trampoline=str(self.pool.trampoline.path))

    def anchor(
        self,
        workloads: Sequence[BoundWorkload],
        fresh_inputs: Callable[[BoundWorkload], FreshInputs],
        *,
        panel: Sequence[str],
    ) -> None:
        """Time the baselines on each workload, and choose the size of its batches."""
        for bound in workloads:
            fresh = fresh_inputs(bound)
            self.baselines.anchor(bound, fresh, panel=panel, most_calls=_MOST_CALLS, room_bytes=_SETS_BYTES)

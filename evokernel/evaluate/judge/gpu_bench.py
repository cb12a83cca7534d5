"""The bench of a GPU: device memory shared by descriptor, a runner for recorded kernels, workers for the rest."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.artifact_mode.baselines import DeviceBaselines, Prelude
from evokernel.evaluate.artifact_mode.build_checks import Target, read_artifact
from evokernel.evaluate.artifact_mode.output_comparison import OutputComparisons
from evokernel.evaluate.artifact_mode.plan import PlanLimits
from evokernel.evaluate.artifact_mode.row_comparison import KINDS, RowComparison
from evokernel.evaluate.artifact_mode.runner_pool import PreludeSize, RunnerPool, runner_host
from evokernel.evaluate.artifact_mode.session import ArtifactSession, ArtifactTools
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession, WorkerSession
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
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.build.confined_compilers import sandbox_for
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.device import gpu_roofline
from evokernel.evaluate.device.cores import Cores
from evokernel.evaluate.device.gpu_conditions import NeighbourWatch
from evokernel.evaluate.device.lock import this_device_lease
from evokernel.evaluate.device.nvml import visible_gpu
from evokernel.evaluate.judge.gpu_anchors import DeviceAnchors, Room
from evokernel.evaluate.judge.gpu_workers import GpuWorkers
from evokernel.evaluate.memory.device_arena import DeviceArena
from evokernel.evaluate.numerics.arrays import float_dtypes, torch_dtype
from evokernel.evaluate.numerics.odd_shapes import compiled_again, compiled_workloads
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.evaluate.worker_mode.expert_loop import EXPERT
from evokernel.records.timing import Floor
from evokernel.task import DTYPES, Task, Workload
from evokernel.tasks import load_task

_QUIET_TIMEOUT_S = 120.0
_SCRATCH_BYTES, _SCRATCH_SHARE = 4 << 30, 1 / 16  # each batch begins with all of it filled anew
# Not the build's own reason: the candidate's code ran there and could reveal hidden shapes.
_UNRECORDABLE = (
    "run in a worker, for what run() does cannot be recorded: a zero_, fill_ or copy_ on memory that is not "
    "contiguous, between dtypes, or with a number that is not the same in every 4 bytes"
)
# The rest is for the contexts of several processes, the judge's copies of outputs, and a new arena while other
# processes still map the old one.
_SHARE_OF_FREE_MEMORY = 0.33


@dataclass(frozen=True, slots=True)
class CudaBench:
    """A bench on the GPU that this process sees first."""

    bench: Bench
    """Workloads, baselines and device, for both modes."""
    artifacts: ArtifactTools
    """Tools for recorded candidates."""

    def open_session(self, artifact: bytes, source: str) -> CandidateSession:
        """Begin the judgement of one candidate: in the runner, or in a worker where it could not be recorded.

        Raises `WorkerError` where it cannot be loaded, `HarnessError`.
        """
        gpu = visible_gpu()
        if gpu is None:
            raise HarnessError("a GPU that was there is gone")
        workloads = [bound.workload for bound in self.bench.shape_numbers]
        scratch_bytes = max(_SCRATCH_BYTES, int(_SCRATCH_SHARE * gpu.memory_bytes))
        limits = PlanLimits(shared_bytes=gpu.shared_bytes, scratch_bytes=scratch_bytes)
        target = Target(gpu.capability, limits)
        checked = read_artifact(artifact, self.bench.task, workloads=workloads, target=target)
        if checked.plans.unrecordable:
            return WorkerSession(self.bench, artifact, source, note=_UNRECORDABLE)
        return ArtifactSession(self.bench, self.artifacts, checked)


@contextmanager
def open_gpu_bench(setup: BenchSetup) -> Iterator[CudaBench]:
    """Set up a bench on the GPU, while no other judge is at work there; leaving it ends the processes.

    Raises:
        TaskError: the task cannot be loaded or is not fit to judge candidates.
        HarnessError: the machinery failed.
    """
    with ExitStack() as stack:
        with this_device_lease():
            bench = _set_up(setup, stack)
        yield bench


def _set_up(setup: BenchSetup, stack: ExitStack) -> CudaBench:
    pin_to(setup.cores.untimed)
    with ThreadPoolExecutor(1) as helper:  # it imports torch in parallel
        sandbox, task = sandbox_for(setup.settings), load_task(setup.task_spec).on("cuda")
        task = confine_generators(task, setup.task_spec, sandbox=sandbox)
        task = task.with_floats(setup.dtype) if setup.dtype else task
        opening = helper.submit(_open_runners, setup.cores, sandbox, stack)
        groundwork = lay_groundwork(setup, task, sandbox, device_class="cuda")
        prelude, runners = opening.result()
    pin_to(setup.cores.judge)
    functions = panel_functions(task, max_autotune=setup.final and setup.settings.max_autotune)
    baselines = DeviceBaselines(task, functions, prelude=Prelude(prelude))
    comparisons = OutputComparisons(rng=groundwork.rng, comparers=_comparers(task))
    offered = task.workloads["cuda"]
    timed_on = {workload.distribution for workload in (*offered.search, *offered.holdout)}
    least_sets = (
        len(timed_on.union(groundwork.task.distributions)) + 1
    )  # every check of a workload has a copy, and a repetition
    ours: list[Callable[[], set[int]]] = [runners.pids]
    watch = NeighbourWatch(lambda: set().union(*(pids() for pids in ours)))
    room = Room(_room_bytes(setup, task), cache_bytes=prelude.size_bytes, least_sets=least_sets, final=setup.final)
    sheet = dict(setup.sheet) or gpu_roofline.measure_device()

    def make_arena(workload: Workload, sets: int) -> DeviceArena:
        return DeviceArena.for_signature(task.signature, workload.sizes, sets=sets)

    workloads = bind_workloads(setup, groundwork, make_arena=make_arena, sets=least_sets, stack=stack)
    workers = GpuWorkers(setup, task, sandbox=sandbox, watch=watch, bound=timed(workloads)[0], stack=stack)
    ours.append(workers.pids)
    anchors = DeviceAnchors(baselines, workers, watch, cores=setup.cores, room=room, signature=task.signature)
    panel = [*functions]
    if setup.expert:
        anchors.load_expert(setup.expert)
        panel.append(EXPERT)
    anchors.anchor(timed(workloads), groundwork.fresh_inputs, panel=panel)
    bench = Bench(
        setup,
        groundwork,
        device=Gpu(runners, workers, watch),
        workers=workers,
        anchors=anchors,
        workloads=workloads,
        bind_added=partial(bind_added, groundwork=groundwork, make_arena=make_arena, sets=least_sets, stack=stack),
        baselines=panel,
        sheet=sheet,
    )
    bench.odd = _bind_odd(setup, groundwork, workloads, make_arena=make_arena, stack=stack)
    instrument_cores = tuple(sorted({*setup.cores.judge, *setup.cores.runners}))
    return CudaBench(
        bench, ArtifactTools(runners, baselines, comparisons, sandbox, instrument_cores, prelude.multiprocessors)
    )


def _bind_odd(
    setup: BenchSetup,
    groundwork: Groundwork,
    workloads: Sequence[BoundWorkload],
    *,
    make_arena: Callable[[Workload, int], DeviceArena],
    stack: ExitStack,
) -> tuple[BoundWorkload, ...]:
    """Return hidden workloads of odd shapes: new ones, or those behind the hidden shapes of the run's first judge."""
    task, rng = groundwork.task, groundwork.rng
    probes = [bound.workload for bound in workloads if bound.kind is WorkloadPurpose.PROBE]
    shapes, found = compiled_again(setup.probes[len(probes) :]), []
    if not setup.probes:
        shapes = compiled_workloads(task, probes, task.workloads["cuda"], rng, final=setup.final, numbers=setup.numbers)
    for shape in shapes:
        make = partial(make_arena, shape)
        found.append(BoundWorkload(task, shape, WorkloadPurpose.PROBE, rng, make_arena=make, sets=1))
        stack.callback(found[-1].close)
    if setup.probes and not setup.final:  # the run's first judge has looked, and kernels are compiled for all of these
        return tuple(found)
    return with_answers(groundwork, found)


def _open_runners(cores: Cores, sandbox: Sandbox, stack: ExitStack) -> tuple[PreludeSize, RunnerPool]:
    device = torch.cuda.get_device_properties(0)
    prelude = PreludeSize(device.L2_cache_size, device.multi_processor_count)
    host = runner_host(sandbox, prelude=prelude, cpus=cores.runners, spin=cores.may_spin)
    return prelude, stack.enter_context(RunnerPool(host, spin=cores.may_spin))


def _comparers(task: Task) -> dict[torch.dtype, RowComparison]:
    floats = {torch_dtype(tensor.dtype) for tensor in task.signature.tensors} & KINDS.keys()
    return {dtype: RowComparison(dtype) for dtype in floats}


def _room_bytes(setup: BenchSetup, task: Task) -> int:
    """Return the limit of device memory for the buffers of one workload."""
    workloads = task.workloads["cuda"]
    count = len(workloads.search) + (len(workloads.holdout) if setup.final else 0)
    return int(torch.cuda.mem_get_info()[0] * _SHARE_OF_FREE_MEMORY / count)


class Gpu:
    """The GPU that this process sees first; see `BenchDevice`.

    `runners` and `workers` hold standby processes that must be ready before a clock runs; `watch` detects other
    programs.
    """

    device_class: ClassVar[str] = "cuda"
    timed_share: ClassVar[float] = 0.125
    compiles_for_shapes: ClassVar[bool] = True

    def __init__(self, runners: RunnerPool, workers: GpuWorkers, watch: NeighbourWatch) -> None:
        self._runners = runners
        self._workers = workers
        self._watch = watch

    @cached_property
    def name(self) -> str:
        """The GPU's model."""
        return gpu_roofline.device_name()

    @cached_property
    def case_bytes(self) -> int:
        """A quarter of the GPU's memory: a third is for the buffers, and an expected value takes its size anew."""
        return int(torch.cuda.mem_get_info()[1]) // 4

    def measure(self) -> dict[str, float]:
        """Return the device sheet."""
        return gpu_roofline.measure_device()

    def floor(self, task: Task, work: Work, sheet: Mapping[str, float]) -> Floor:
        """Return the least time of arithmetic in the narrowest dtype of task and work, if any, and of memory."""
        dtype = min((*float_dtypes(task.signature.tensors), *work.dtypes), key=lambda name: DTYPES[name], default="")
        return gpu_roofline.floor_of(work.flops, work.bytes, dtype, sheet, allow_tf32=task.precision.allow_tf32)

    def quiet(self) -> str:
        """Wait for the standby process and for other programs to leave the GPU; name those that stay."""
        self._runners.wait_ready()
        self._workers.wait_ready()
        return self._watch.wait_until_quiet(_QUIET_TIMEOUT_S) or ""

    def lease(self) -> AbstractContextManager[object]:
        """Wait until no other judge of this machine uses the GPU. Raises `HarnessError` naming the one that does."""
        return this_device_lease()

    def left_running(self) -> bool:
        """Say whether kernels of a stopped process, or of another program, still run."""
        return self._watch.is_busy()

    def pause(self, seconds: float) -> bool:
        """Leave the GPU alone for so long; say whether another program has a context there, or work."""
        time.sleep(seconds)
        return bool(self._watch.foreign_processes()) or self._watch.is_busy()

    def conditions(self) -> dict[str, float]:
        """Return clocks and neighbours: recorded beside a measurement, never used to discard it."""
        return self._watch.conditions()

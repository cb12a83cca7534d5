"""The bench of a GPU: device memory shared by descriptor, a runner for recorded kernels, workers for the rest."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cached_property

import torch

from evokernel.evaluate.artifact_mode.baselines import DeviceBaselines, Prelude
from evokernel.evaluate.artifact_mode.row_comparison import KINDS, RowComparison
from evokernel.evaluate.artifact_mode.runner_pool import PreludeSize, RunnerPool, runner_host
from evokernel.evaluate.artifact_mode.verifier import Verifier
from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.device import gpu_roofline
from evokernel.evaluate.device.lock import this_device_lease
from evokernel.evaluate.device.neighbours import NeighbourWatch
from evokernel.evaluate.instruments.profiler import Profiler
from evokernel.evaluate.instruments.sanitizer import Sanitizer
from evokernel.evaluate.instruments.tool_run import ToolRunner
from evokernel.evaluate.memory.device_arena import DeviceArena
from evokernel.evaluate.numerics.arrays import is_float, settle, torch_dtype
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from evokernel.evaluate.worker_mode.expert_loop import EXPERT, python_baseline
from evokernel.evaluate.worker_mode.gpu_pool import CudaWorker, CudaWorkerPool
from evokernel.records.evaluation import Floor
from evokernel.task import DTYPES, Workload

# The rest is for the contexts of several processes, the judge's copies of outputs, and the arena that replaces a broken
# one while others still map the old.
_SHARE_OF_FREE_MEMORY = 0.33
_QUIET_TIMEOUT_S = 120.0
_WORKER_BATCH_S, _FIRST_CALL_S = 0.005, 180.0
_BATCH_NS, _FINAL_BATCH_NS = 0.8e6, 2.4e6
_TRIAL_CALLS, _TRIAL_NS = 16, 1e8
_TRIALS = 3
_LEAST_CALLS, _MOST_CALLS, _MOST_FINAL_CALLS = 4, 64, 192
_OVER_CACHE = 2
"""A batch goes through this many times what the second-level cache holds, so that no call finds its inputs there."""


class CudaBench(Bench):
    """Judges kernels on the GPU that this process sees first."""

    device_class = "cuda"
    timed_share = 0.125

    @cached_property
    def device_name(self) -> str:
        """The GPU's model."""
        return gpu_roofline.device_name()

    @cached_property
    def baselines(self) -> BaselineTimer:
        """The baseline process, started for the first candidate that is run in a worker."""
        process = BaselineProcess(self._spec, device="cuda", threads=1, cpus=self.cores.runners, spin=self.cores.apart)
        self._baseline_pid = process.pid
        self._stack.enter_context(process)
        if self._expert:
            process.hire(self._expert)
        side = BaselineTimer(
            process, batch_s=_WORKER_BATCH_S, first_call_s=_FIRST_CALL_S, after_batch=self._watch.learn
        )
        side.attach(self.timed[0])
        side.measure_wake(self.timed[0])
        return side

    def load(self, artifact: bytes, source: str) -> CudaWorker:
        """Hand a bundle to the worker in waiting, with the source itself in it. Raises as `CudaWorkerPool.load`."""
        return self._workers.load(artifact, source, timeout_s=self.settings.timeout_s)

    def floor(self, workload: Workload) -> Floor:
        """Return the least time of arithmetic in the task's narrowest floating-point dtype, if any, and of memory."""
        precision = self.task.precision
        floats = [tensor.dtype for tensor in self.task.signature.tensors if is_float(tensor.dtype)]
        dtype = min(floats, key=lambda name: DTYPES[name], default="")
        flops, moved = self.task.flops_at(workload), self.task.bytes_at(workload)
        return gpu_roofline.floor_of(flops, moved, dtype, self.sheet, allow_tf32=precision.allow_tf32)

    def verifier(self, ground: BoundWorkload) -> Verifier:
        """Return what compares outputs on a workload; the same for all candidates while it has the same buffers."""
        known = self._verifiers.get(ground)
        if known is None or known[0] != ground.name:
            known = self._verifiers[ground] = (ground.name, Verifier(ground, rng=self.rng, comparers=self._comparers))
        return known[1]

    @cached_property
    def profiler(self) -> Profiler:
        """What reads hardware counters of recorded calls."""
        return Profiler(self._tools(), multiprocessors=self._prelude.multiprocessors)

    @cached_property
    def sanitizer(self) -> Sanitizer:
        """What looks for wrong accesses and races in recorded calls."""
        return Sanitizer(self._tools())

    def quiet(self) -> str:
        """Wait for the process in waiting to be up and for other programs to leave the GPU; name who stays."""
        self.runners.settle()
        if "_workers" in self.__dict__:
            self._workers.settle()
        return self._watch.wait_until_quiet(_QUIET_TIMEOUT_S) or ""

    def lease(self) -> AbstractContextManager[object]:
        """Wait until no other judge of this machine is at work on the GPU. Raises `HarnessError` naming who is."""
        return this_device_lease()

    def left_running(self) -> bool:
        """Say whether kernels of a stopped process, or of anybody else, still run."""
        return self._watch.is_busy()

    def conditions(self) -> dict[str, float]:
        """Return clocks and neighbours: recorded beside a measurement, never used to discard it."""
        return self._watch.conditions()

    def _setup_cores(self) -> Iterable[int]:
        return {*self.cores.judge, *self.cores.runners, *self.cores.compilers}

    def _begin(self, task: str) -> None:
        self._spec = task
        self._baseline_pid = 0
        self._expert = ""

    def _open(self) -> None:
        device = torch.cuda.get_device_properties(0)
        self._prelude = PreludeSize(device.L2_cache_size, device.multi_processor_count)
        self.runners = self._stack.enter_context(
            RunnerPool(
                runner_host(self.sandbox, prelude=self._prelude, cpus=self.cores.runners, spin=self.cores.apart),
                spin=self.cores.apart,
            )
        )

    def _ready(self) -> None:
        self.device_baselines = DeviceBaselines(self.task, self.functions, prelude=Prelude(self._prelude))
        floats = {torch_dtype(tensor.dtype) for tensor in self.task.signature.tensors} & KINDS.keys()
        self._comparers = {dtype: RowComparison(dtype) for dtype in floats}
        self._verifiers: dict[BoundWorkload, tuple[str, Verifier]] = {}
        self.least_sets = len(self.task.distributions) + 1
        self._watch = NeighbourWatch(self._ours)
        workloads = self.task.workloads[self.device_class]
        timed = len(workloads.search) + (len(workloads.holdout) if self.final else 0)
        self._room = int(torch.cuda.mem_get_info()[0] * _SHARE_OF_FREE_MEMORY / timed)

    def _measure(self) -> dict[str, float]:
        return gpu_roofline.measure_device()

    def _make_arena(self, workload: Workload, sets: int) -> DeviceArena:
        return DeviceArena.for_signature(self.task.signature, workload.sizes, sets=sets)

    def _load_expert(self, expert: str) -> None:
        self._expert = expert
        self.device_baselines.add(EXPERT, python_baseline(expert, self.task.signature))

    @cached_property
    def _workers(self) -> CudaWorkerPool:
        """Workers for what cannot be recorded: they import torch and Triton, which takes seconds."""
        pool = CudaWorkerPool(self.task.signature, sandbox=self.sandbox, cpus=self.cores.runners, spin=self.cores.apart)
        return self._stack.enter_context(pool)

    def _tools(self) -> ToolRunner:
        return ToolRunner(self.sandbox, cpus=sorted({*self.cores.judge, *self.cores.runners}))

    def _ours(self) -> set[int]:
        workers = self._workers.pids() if "_workers" in self.__dict__ else set()
        return {os.getpid(), self._baseline_pid, *self.runners.pids(), *workers}

    # ------------------------------------------------------------------------------------------------ batch sizes

    def _anchor_all(self) -> None:
        """Let the baselines compile on all cores: times are the device's own, and nothing else is timed yet."""
        self._keep_to(self._setup_cores())
        super()._anchor_all()
        self._keep_to(self.cores.judge)

    def _anchor(self, ground: BoundWorkload, fresh: FreshInputs) -> None:
        """Time the baselines, and have as many copies of the buffers as a batch has calls, and some to spare.

        The spare ones look like the others to a kernel, and must be left alone.
        """
        _fill(ground, fresh)
        first_ns = min(self._least_ns(ground, name, calls=1) for name in self.panel)
        if first_ns * _TRIAL_CALLS < _TRIAL_NS:
            first_ns = min(self._least_ns(ground, name, calls=_TRIAL_CALLS) for name in self.panel)
        ground.calls = self._calls(ground, first_ns)
        ground.resize(max(self.least_sets, ground.calls + spares(ground.calls)))
        _fill(ground, fresh)
        ground.baseline_us = {name: self._least_ns(ground, name, calls=ground.calls) / 1e3 for name in self.panel}
        torch.cuda.empty_cache()

    def _calls(self, ground: BoundWorkload, call_ns: float) -> int:
        cache = self._prelude.size_bytes
        batch_ns, most = (_FINAL_BATCH_NS, _MOST_FINAL_CALLS) if self.final else (_BATCH_NS, _MOST_CALLS)
        wanted = max(batch_ns / call_ns, _OVER_CACHE * cache / ground.set_bytes, _LEAST_CALLS)
        room = self._room // ground.set_bytes
        while room > 2 and room + spares(room) > self._room // ground.set_bytes:
            room -= 1
        return max(1, min(round(wanted), most, room))

    def _least_ns(self, ground: BoundWorkload, name: str, *, calls: int) -> float:
        """Return the least time of one call in ns: a busy machine can only make it look slower."""
        batch, times = self.device_baselines.trial(ground, name, calls=calls), []
        for _ in range(_TRIALS):
            times.append(batch.run_ns() / calls)
            self._watch.learn()  # what a look at the GPU says right after trusted work
        return min(times)


def spares(calls: int) -> int:
    """Return how many copies of the buffers there are beside those of a batch's calls."""
    return max(2, calls // 4)


def _fill(ground: BoundWorkload, fresh: FreshInputs) -> None:
    fresh.fill_sets(ground.all_inputs(), fresh.draw_windows(ground.sets))
    ground.poison_all(ground.sets)
    settle(ground.device)

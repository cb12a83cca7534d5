"""All a judge works with: task, workloads with their buffers, the workers' zygote, the baseline process."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.config import EvaluationConfig
from evokernel.errors import HarnessError, TaskError
from evokernel.evaluate.admission import admit
from evokernel.evaluate.baseline import REFERENCE, BaselineProcess
from evokernel.evaluate.compilers import sandbox_for
from evokernel.evaluate.device import best_of, measure_device
from evokernel.evaluate.ground import Ground, Kind
from evokernel.evaluate.inputs import FreshInputs, probe_workloads
from evokernel.evaluate.sandbox import Sandbox
from evokernel.evaluate.session import Worker, WorkerLimits, WorkerPool
from evokernel.evaluate.trampoline import build_trampoline
from evokernel.task import Task, WorkloadSet
from evokernel.tasks import load_task

DEVICE_CLASS = "cpu"
BATCH_S = 0.003
SETS_BYTES = 64 << 20
MOST_CALLS = 512
_ANCHOR_BATCHES = 5
_WAKE_BATCHES = 21


class Bench:
    """Set up once per judge process; a context manager that ends what it started."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.settings = EvaluationConfig(**setup["settings"])
        self.threads: int = setup["threads"]
        cores: Sequence[int] = setup["cores"]
        self.cores = tuple(cores[-self.threads :])
        self.final: bool = setup["final"]
        self._stack = ExitStack()
        self._keep_off(cores)
        with ThreadPoolExecutor(1) as helper:  # it imports torch, too: both at once
            starting = helper.submit(BaselineProcess, setup["task"], threads=self.threads, cpus=self.cores)
            self.task: Task = load_task(setup["task"])
            self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
            workloads = self._workloads(admitted=not setup["admit"])
            self.baseline = self._stack.enter_context(starting.result())
        self._baseline_known: set[str] = set()
        self.sandbox: Sandbox = sandbox_for(self.settings)
        self.sheet: dict[str, float] = setup.get("sheet") or measure_device(self.cores)
        self.pool = self._stack.enter_context(self._worker_pool())
        self.grounds = tuple(self._grounds(workloads))
        self.wake_ns = 0.0
        for ground in self.timed:
            self._anchor(ground)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and the baseline process, and give the buffers back."""
        self._stack.close()

    @property
    def timed(self) -> tuple[Ground, ...]:
        """The workloads that are timed: search ones, and held-out ones for a winner."""
        return tuple(ground for ground in self.grounds if ground.kind is not Kind.PROBE)

    @property
    def probes(self) -> tuple[Ground, ...]:
        """The hidden workloads."""
        return tuple(ground for ground in self.grounds if ground.kind is Kind.PROBE)

    @property
    def panel(self) -> tuple[str, ...]:
        """The names of the baselines."""
        return tuple(self.task.baselines or {REFERENCE: None})

    def attach_baseline(self, ground: Ground) -> None:
        """Let the baseline process know the current buffers of a workload."""
        ground.attach(self.baseline, self._baseline_known)

    def load(self, artifact: bytes) -> Worker:
        """Start a worker with a candidate in it. Raises as `WorkerPool.load`."""
        return self.pool.load(artifact, timeout_s=self.settings.timeout_s)

    def look_again(self) -> None:
        """Measure the device once more: before calling a candidate impossible, doubt the sheet."""
        self.sheet = best_of(self.sheet, measure_device(self.cores))

    # ------------------------------------------------------------------------------------------------ setting up

    def _workloads(self, *, admitted: bool) -> WorkloadSet:
        if not admitted:
            admit(self.task, DEVICE_CLASS, rng=self.rng)
        if DEVICE_CLASS not in self.task.workloads:
            raise TaskError(f"task {self.task.name!r} has no workloads for device class {DEVICE_CLASS!r}")
        return self.task.workloads[DEVICE_CLASS]

    def _keep_off(self, cores: Sequence[int]) -> None:
        try:
            os.sched_setaffinity(0, cores[: -self.threads] or cores)
        except OSError as error:
            raise HarnessError(f"the cores {list(cores)} cannot be used here: {error}") from None

    def _worker_pool(self) -> WorkerPool:
        trampoline = build_trampoline(self.task.signature, _cache_folder())
        limits = WorkerLimits(
            memory_bytes=self.settings.memory_mib << 20,
            cpu_s=int(self.settings.timeout_s * 30 * self.threads) + 1,
            threads=self.threads,
            cpus=self.cores,
        )
        return WorkerPool(trampoline, sandbox=self.sandbox, limits=limits)

    def _grounds(self, workloads: WorkloadSet) -> Iterable[Ground]:
        groups = {Kind.PROBE: probe_workloads(workloads, self.rng), Kind.SEARCH: workloads.search}
        if self.final:
            groups[Kind.HOLDOUT] = workloads.holdout
        for kind, members in groups.items():
            for workload in members:
                ground = Ground(self.task, workload, kind, self.rng)
                self._stack.callback(ground.close)
                yield ground

    def _anchor(self, ground: Ground) -> None:
        """Time the baselines on a workload, choose the batch size, and make room for that many calls."""
        fresh = FreshInputs(self.task, ground.workload, self.rng)
        for index in range(ground.sets):
            fresh.fill(ground.views(index))
        self.attach_baseline(ground)
        first = min(self._baseline_ns(ground, name, 1) for name in self.panel)
        room = SETS_BYTES // ground.set_bytes - 1
        calls = max(1, min(round(BATCH_S * 1e9 / first + 0.5), room, MOST_CALLS))
        ground.resize(calls + 1)
        for index in range(ground.sets):
            fresh.fill(ground.views(index))
        self.attach_baseline(ground)
        ground.calls = calls
        # What waking a process costs, measured on the trusted one: a candidate could make its own look dear.
        self.wake_ns = self._batch_ns(ground, calls=0, batches=_WAKE_BATCHES)
        ground.baseline_us = {name: self._baseline_ns(ground, name, calls) / 1e3 for name in self.panel}

    def _baseline_ns(self, ground: Ground, name: str, calls: int) -> float:
        """Return the least time of one call in ns: a busy machine can only make it look slower."""
        self.baseline.select(name)
        return max(self._batch_ns(ground, calls=calls, batches=_ANCHOR_BATCHES) - self.wake_ns, 1.0) / calls

    def _batch_ns(self, ground: Ground, *, calls: int, batches: int) -> float:
        """Return the least time of a batch in ns."""
        times = []
        for _ in range(batches):
            self.baseline.prepare(
                ground.name, first_set=0, calls=calls, warm_set=calls, timeout_s=self.settings.timeout_s
            )
            times.append(self.baseline.go(timeout_s=self.settings.timeout_s))
        return min(times)


def _cache_folder() -> Path:
    """Return where compiled trampolines are kept: small, few, and the same for every run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "evokernel"

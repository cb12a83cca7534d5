"""All a judge works with: task, workloads with their buffers, the pool of workers, the baseline process."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch

from evokernel.config import EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.admission import admit
from evokernel.evaluate.arena import Arena
from evokernel.evaluate.baseline import REFERENCE, BaselineProcess
from evokernel.evaluate.compilers import sandbox_for
from evokernel.evaluate.cores import Cores
from evokernel.evaluate.device import best_of
from evokernel.evaluate.fresh import FreshInputs
from evokernel.evaluate.ground import Ground, Kind
from evokernel.evaluate.hosted import HostedRunner
from evokernel.evaluate.probes import probe_workloads
from evokernel.evaluate.sandbox import Sandbox
from evokernel.task import Task, Workload, WorkloadSet
from evokernel.tasks import load_task

_ANCHOR_BATCHES = 5
_WAKE_BATCHES = 21


class Bench(ABC):
    """Set up once per judge process; a context manager that ends what it started.

    `batch_s` is how long a timed batch of the fastest baseline should last, `most_calls` how many calls it may have;
    `trial_calls` how many are timed to find that number: more than one where one call alone costs more to start;
    `timed_share` is the share of every timed output that is compared; `first_call_s` what a baseline's first call may
    take, since it may compile.
    """

    device_class: ClassVar[str]
    batch_s: ClassVar[float]
    most_calls: ClassVar[int]
    trial_calls: ClassVar[int]
    timed_share: ClassVar[float]
    first_call_s: ClassVar[float]

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.settings = EvaluationConfig(**setup["settings"])
        self.threads: int = setup["threads"]
        self.cores = Cores(**{name: tuple(cores) for name, cores in setup["cores"].items()})
        self.final: bool = setup["final"]
        self._stack = ExitStack()
        self._keep_to(self._setup_cores())
        with ThreadPoolExecutor(2) as helpers:  # they import torch, too: all at once
            starting = helpers.submit(self._start_baseline, setup["task"])
            self.sandbox: Sandbox = sandbox_for(self.settings)
            self.task: Task = load_task(setup["task"]).on(self.device_class)
            opening = helpers.submit(self._open)
            self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
            if setup["admit"]:
                admit(self.task, self.device_class, rng=self.rng, device=self.device_class)
            self.baseline = self._stack.enter_context(starting.result())
            opening.result()
        self._keep_to(self.cores.judge)
        self._baseline_known: set[str] = set()
        self._ready()
        self.sheet: dict[str, float] = setup.get("sheet") or self._measure()
        self.grounds = tuple(self._grounds(self.task.workloads[self.device_class]))
        self.wake_ns = 0.0
        for ground in self.timed:
            self._anchor(ground)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and the baseline process, and give the buffers back."""
        self._stack.close()

    # ---------------------------------------------------------------------------------- what a device class decides

    @property
    @abstractmethod
    def device_name(self) -> str:
        """The device's model."""

    @abstractmethod
    def load(self, artifact: bytes, source: str) -> HostedRunner:
        """Start a worker with a candidate in it. Raises `WorkerError` where the candidate cannot be loaded.

        `artifact` comes from a process that ran the candidate's own code, `source` does not.
        """

    @abstractmethod
    def floor_us(self, workload: Workload) -> float:
        """Return the least time the device could need for a workload, in us."""

    @abstractmethod
    def quiet(self) -> str:
        """Wait, before a clock runs, until nobody else uses the device; return what disturbs it still, or nothing."""

    def conditions(self) -> dict[str, float]:
        """Return metrics of the device's state, to be recorded beside a measurement."""
        return {}

    def look_at_idle(self) -> None:  # noqa: B027  only a GPU needs it
        """Look at the device after a baseline's batch, when no candidate is near; `left_running` compares with it."""

    def _setup_cores(self) -> Iterable[int]:
        """Return the cores that may be used until everything is set up."""
        return self.cores.judge

    def _ready(self) -> None:  # noqa: B027  only a GPU needs it
        """Do what needs the baseline process and the workers, but nothing at work on the device."""

    @abstractmethod
    def left_running(self) -> bool:
        """Say whether a stopped process still has work on the device; it must have none when its batch is over."""

    @abstractmethod
    def _start_baseline(self, task: str) -> BaselineProcess: ...

    @abstractmethod
    def _open(self) -> None:
        """Get ready to start workers."""

    @abstractmethod
    def _measure(self) -> dict[str, float]:
        """Return the device sheet."""

    @abstractmethod
    def _make_arena(self, workload: Workload, sets: int) -> Arena: ...

    @abstractmethod
    def _room_bytes(self) -> int:
        """Return how many bytes the buffers of one timed workload may take."""

    # ------------------------------------------------------------------------------------------------ for everyone

    @property
    def timed(self) -> tuple[Ground, ...]:
        """The workloads that are timed: search ones, and held-out ones for a winner."""
        return tuple(ground for ground in self.grounds if ground.kind is not Kind.PROBE)

    @property
    def probes(self) -> tuple[Ground, ...]:
        """The hidden workloads."""
        return tuple(ground for ground in self.grounds if ground.kind is Kind.PROBE)

    @property
    def hidden_shapes(self) -> list[dict[str, int | float]]:
        """What kernels will be called with beside the search workloads, for languages that compile for shapes."""
        return [dict(ground.workload.dims) for ground in self.grounds if ground.kind is not Kind.SEARCH]

    @property
    def panel(self) -> tuple[str, ...]:
        """The names of the baselines."""
        return tuple(self.task.baselines or {REFERENCE: None})

    def attach_baseline(self, ground: Ground) -> None:
        """Let the baseline process know the current buffers of a workload."""
        ground.attach(self.baseline, self._baseline_known)

    def look_again(self) -> None:
        """Measure the device once more: before calling a candidate impossible, doubt the sheet."""
        self.sheet = best_of(self.sheet, self._measure())

    # ------------------------------------------------------------------------------------------------ setting up

    def _keep_to(self, cores: Iterable[int]) -> None:
        torch.set_num_threads(1)  # more would disturb the timed cores, or wait for each other on the one that is left
        try:
            os.sched_setaffinity(0, cores)
        except OSError as error:
            raise HarnessError(f"the cores {list(cores)} cannot be used here: {error}") from None

    def _grounds(self, workloads: WorkloadSet) -> Iterable[Ground]:
        groups = {Kind.PROBE: probe_workloads(workloads, self.rng), Kind.SEARCH: workloads.search}
        if self.final:
            groups[Kind.HOLDOUT] = workloads.holdout
        for kind, members in groups.items():
            for workload in members:
                ground = Ground(self.task, workload, kind, self.rng, make_arena=partial(self._make_arena, workload))
                self._stack.callback(ground.close)
                yield ground

    def _anchor(self, ground: Ground) -> None:
        """Time the baselines on a workload, choose the batch size, and make room for that many calls."""
        fresh = FreshInputs(self.task, ground.workload, self.rng, device=self.device_class)
        self._fill(ground, fresh)
        self.wake_ns = self.wake_ns or self._batch_ns(ground, calls=0, batches=_WAKE_BATCHES)
        first = self._first_ns(ground)
        room = self._room_bytes() // ground.set_bytes - 1
        calls = max(1, min(round(self.batch_s * 1e9 / first + 0.5), room, self.most_calls))
        ground.resize(calls + 1)
        self._fill(ground, fresh)
        ground.calls = calls
        # What waking a process costs, measured on the trusted one: a candidate could make its own look dear.
        self.wake_ns = self._batch_ns(ground, calls=0, batches=_WAKE_BATCHES)
        ground.baseline_us = {name: self._baseline_ns(ground, name, calls) / 1e3 for name in self.panel}

    def _fill(self, ground: Ground, fresh: FreshInputs) -> None:
        for index, window in enumerate(fresh.draw_windows(ground.sets)):
            fresh.fill(ground.views(index), window)
        self.attach_baseline(ground)

    def _first_ns(self, ground: Ground) -> float:
        """Return about how long one call of the fastest baseline takes, in ns."""
        once = min(self._baseline_ns(ground, name, 1) for name in self.panel)
        if self.trial_calls == 1 or once * self.trial_calls > 4e9 * self.batch_s:
            return once
        return min(self._baseline_ns(ground, name, self.trial_calls) for name in self.panel)

    def _baseline_ns(self, ground: Ground, name: str, calls: int) -> float:
        """Return the least time of one call in ns: a busy machine can only make it look slower."""
        self.baseline.select(name)
        return max(self._batch_ns(ground, calls=calls, batches=_ANCHOR_BATCHES) - self.wake_ns, 1.0) / calls

    def _batch_ns(self, ground: Ground, *, calls: int, batches: int) -> float:
        """Return the least time of a batch in ns."""
        times = []
        for _ in range(batches):
            self.baseline.prepare(
                ground.name, first_set=0, calls=calls, warm_set=ground.sets - 1, timeout_s=self.first_call_s
            )
            times.append(self.baseline.go(timeout_s=self.first_call_s))
            self.look_at_idle()
        return min(times)

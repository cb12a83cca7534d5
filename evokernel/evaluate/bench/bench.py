"""All a judge works with: task, workloads with their buffers, baselines, and what runs candidates."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch

from evokernel.config.run import EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.bench.admission import admit
from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.build.confined_compilers import sandbox_for
from evokernel.evaluate.device.cores import Cores
from evokernel.evaluate.device.cpu_roofline import best_of
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads, probes_again
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.evaluate.worker_mode.expert_loop import EXPERT
from evokernel.records.evaluation import Floor
from evokernel.task import Task, Workload, WorkloadSet
from evokernel.tasks import load_task


class Bench(ABC):
    """Set up once per judge process; a context manager that ends what it started.

    `timed_share` is the share of every timed output that is compared; `least_sets` how many copies of its buffers
    every workload has.
    """

    device_class: ClassVar[str]
    timed_share: ClassVar[float]
    least_sets: int = 2

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.settings = EvaluationConfig(**setup["settings"])
        self.threads: int = setup["threads"]
        self.cores = Cores(**{name: tuple(cores) for name, cores in setup["cores"].items()})
        self.final: bool = setup["final"]
        self._experts: tuple[str, ...] = ()
        self._stack = ExitStack()
        self._keep_to(self._setup_cores())
        with ThreadPoolExecutor(2) as helpers:  # they import torch, too: all at once
            beginning = helpers.submit(self._begin, setup["task"])
            self.sandbox: Sandbox = sandbox_for(self.settings)
            self.task: Task = load_task(setup["task"]).on(self.device_class)
            opening = helpers.submit(self._open)
            self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
            if setup["admit"]:
                admit(self.task, self.device_class, rng=self.rng, device=self.device_class)
            beginning.result()
            opening.result()
        self._keep_to(self.cores.judge)
        self.functions = panel_functions(self.task, max_autotune=self.final and self.settings.max_autotune)
        self._ready()
        self.sheet: dict[str, float] = setup.get("sheet") or self._measure()
        self.grounds = tuple(self._grounds(self.task.workloads[self.device_class], setup.get("probes")))
        chosen: Mapping[str, Mapping[str, float]] = setup.get("baseline_us", {})
        for ground in self.timed:
            times = chosen.get(ground.workload.name, {}) if ground.kind is WorkloadPurpose.SEARCH else {}
            ground.chosen = min(times, key=lambda name: times[name], default="")
        if setup.get("expert"):
            self._hire(setup["expert"])
        self._anchor_all()

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

    @property
    @abstractmethod
    def baselines(self) -> BaselineTimer:
        """Baselines as worker mode runs them."""

    @abstractmethod
    def load(self, artifact: bytes, source: str) -> ForkedRunner:
        """Start a worker with a candidate in it. Raises `WorkerError` where the candidate cannot be loaded.

        `artifact` comes from a process that ran the candidate's own code, `source` does not.
        """

    @abstractmethod
    def floor(self, workload: Workload) -> Floor:
        """Return the least time the device could need for a workload."""

    @abstractmethod
    def quiet(self) -> str:
        """Wait, before a clock runs, until nobody else uses the device; return what disturbs it still, or nothing."""

    def lease(self) -> AbstractContextManager[object]:
        """Return what keeps other judges off the device as long as it is entered; on a processor nothing."""
        return nullcontext()

    def conditions(self) -> dict[str, float]:
        """Return metrics of the device's state, to be recorded beside a measurement."""
        return {}

    def _setup_cores(self) -> Iterable[int]:
        """Return the cores that may be used until everything is set up."""
        return self.cores.judge

    def _ready(self) -> None:  # noqa: B027  only a GPU needs it
        """Do what needs the baseline process and the workers, but nothing at work on the device."""

    @abstractmethod
    def left_running(self) -> bool:
        """Say whether a stopped process still has work on the device; it must have none when its batch is over."""

    def _begin(self, task: str) -> None:  # noqa: B027  only a processor's
        """Start what takes long and needs nothing but the task's name."""

    @abstractmethod
    def _open(self) -> None:
        """Get ready to start workers."""

    @abstractmethod
    def _measure(self) -> dict[str, float]:
        """Return the device sheet."""

    @abstractmethod
    def _make_arena(self, workload: Workload, sets: int) -> Arena: ...

    @abstractmethod
    def _load_expert(self, expert: str) -> None:
        """Make a user's kernel usable as the baseline `EXPERT`; `expert` is the file to load it from."""

    @abstractmethod
    def _anchor(self, ground: BoundWorkload, fresh: FreshInputs) -> None:
        """Time the baselines on a workload, choose the size of its batches, and make room for them."""

    # ------------------------------------------------------------------------------------------------ for everyone

    @property
    def timed(self) -> tuple[BoundWorkload, ...]:
        """The workloads that are timed: search ones, and held-out ones for a winner."""
        return tuple(ground for ground in self.grounds if ground.kind is not WorkloadPurpose.PROBE)

    @property
    def probes(self) -> tuple[BoundWorkload, ...]:
        """The hidden workloads."""
        return tuple(ground for ground in self.grounds if ground.kind is WorkloadPurpose.PROBE)

    @property
    def hidden_shapes(self) -> list[dict[str, int | float]]:
        """What kernels will be called with beside the search workloads, for languages that compile for shapes."""
        return [dict(ground.workload.dims) for ground in self.grounds if ground.kind is not WorkloadPurpose.SEARCH]

    @property
    def panel(self) -> tuple[str, ...]:
        """The names of the baselines."""
        return (*self.functions, *self._experts)

    def hire(self, expert: str) -> None:
        """Make a user's kernel one of the baselines, and time them all anew. Raises `HarnessError`."""
        self._hire(expert)
        self._anchor_all()

    def repair(self) -> None:
        """Put up new guard bars where a candidate that failed has broken them, so that the next one is not blamed."""
        for ground in self.grounds:
            if ground.broken_guards():
                ground.resize(ground.sets)

    def look_again(self) -> None:
        """Measure the device once more: before calling a candidate impossible, doubt the sheet."""
        self.sheet = best_of(self.sheet, self._measure())

    # ------------------------------------------------------------------------------------------------ setting up

    def _hire(self, expert: str) -> None:
        self._load_expert(expert)
        self._experts = (EXPERT,)

    def _anchor_all(self) -> None:
        for ground in self.timed:
            self._anchor(ground, FreshInputs(self.task, ground.workload, self.rng, device=self.device_class))

    def _keep_to(self, cores: Iterable[int]) -> None:
        torch.set_num_threads(1)  # more would disturb the timed cores, or wait for each other on the one that is left
        try:
            os.sched_setaffinity(0, cores)
        except OSError as error:
            raise HarnessError(f"the cores {list(cores)} cannot be used here: {error}") from None

    def _grounds(self, workloads: WorkloadSet, probes: Sequence[Mapping[str, int]] | None) -> Iterable[BoundWorkload]:
        hidden = probes_again(probes) if probes else probe_workloads(workloads, self.rng)
        groups = {WorkloadPurpose.PROBE: hidden, WorkloadPurpose.SEARCH: workloads.search}
        if self.final:
            groups[WorkloadPurpose.HOLDOUT] = workloads.holdout
        for kind, members in groups.items():
            for workload in members:
                make = partial(self._make_arena, workload)
                ground = BoundWorkload(self.task, workload, kind, self.rng, make_arena=make, sets=self.least_sets)
                self._stack.callback(ground.close)
                yield ground

"""Groundwork of a bench: cores, task and sandbox, and the workloads with their buffers."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.bench.admission import admit, with_patchwork
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import TIMED, BoundWorkload, WorkloadPurpose, has_answer
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.numerics.hidden_shapes import large_workloads, probe_workloads, probes_again
from evokernel.evaluate.numerics.size_ranges import within_ranges
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.records.hidden_check import HiddenCheck
from evokernel.task import Task, Workload


@dataclass(frozen=True, slots=True)
class Groundwork:
    """Parts of a bench that every device class has."""

    task: Task
    """For the device class, with the judge's own distributions."""
    device_class: str
    """`cpu` or `cuda`."""
    sandbox: Sandbox
    """Confinement of candidates."""
    rng: np.random.Generator
    """The judge's secret, seeded anew in each process."""

    def fresh_inputs(self, bound: BoundWorkload) -> FreshInputs:
        """Return the source of new contents for a workload's buffers."""
        return FreshInputs(self.task, bound.workload, self.rng, device=self.device_class)


def lay_groundwork(setup: BenchSetup, task: Task, sandbox: Sandbox, *, device_class: str) -> Groundwork:
    """Admit the task, where the setup says so, and add the judge's own distributions, or an earlier judge's, to it.

    Raises `TaskError` if the task is not fit to judge candidates.
    """
    rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
    if setup.admit:
        task = admit(task, device_class, rng=rng, device=device_class).task
    elif setup.distributions:
        task = replace(task, distributions=tuple(setup.distributions))
    else:
        task = with_patchwork(task, device_class, rng=rng, device=device_class)
    return Groundwork(task, device_class, sandbox, rng)


def pin_to(cores: Iterable[int]) -> None:
    """Pin this thread, and those that it starts, to some cores. Raises `HarnessError` where none can be used."""
    torch.set_num_threads(1)  # more would disturb the timed cores, or compete for one core
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise HarnessError(f"the cores {list(cores)} cannot be used here: {error}") from None


def bind_workloads(
    setup: BenchSetup,
    groundwork: Groundwork,
    *,
    make_arena: Callable[[Workload, int], Arena],
    sets: int,
    stack: ExitStack,
) -> tuple[BoundWorkload, ...]:
    """Return all workloads with their buffers, hidden ones first; the stack frees the buffers.

    `make_arena` returns the buffers of a workload for a number of sets.
    """
    task, rng = groundwork.task, groundwork.rng
    offered = task.workloads[groundwork.device_class]
    hidden = probe_workloads(offered, rng)
    if setup.probes:  # behind these the run's first judge has odd ones
        hidden = probes_again(setup.probes[: len(hidden)])
    groups = {WorkloadPurpose.PROBE: hidden, WorkloadPurpose.SEARCH: offered.search}
    if setup.final and groundwork.device_class == "cpu":  # on a GPU a kernel would be compiled for two more shapes
        groups[WorkloadPurpose.PROBE] = (*hidden, *large_workloads(offered, rng))
    if setup.final:
        groups[WorkloadPurpose.HOLDOUT] = offered.holdout
    workloads = list[BoundWorkload]()
    for kind, members in groups.items():
        for workload in members:
            bound = BoundWorkload(task, workload, kind, rng, make_arena=partial(make_arena, workload), sets=sets)
            stack.callback(bound.close)
            if kind is WorkloadPurpose.SEARCH:
                times: Mapping[str, float] = setup.baseline_us.get(workload.name, {})
                bound.chosen = min(times, key=lambda name: times[name], default="")
            workloads += with_answers(groundwork, [bound]) if kind is WorkloadPurpose.PROBE else [bound]
    return tuple(workloads)


def bind_added(
    check: HiddenCheck,
    groundwork: Groundwork,
    *,
    make_arena: Callable[[Workload, int], Arena],
    sets: int,
    stack: ExitStack,
) -> BoundWorkload:
    """Return the workload of a hidden check that the run has added; arguments as those of `bind_workloads`."""
    task = groundwork.task
    workload = check.workload(task.workloads[groundwork.device_class])
    make, purpose = partial(make_arena, workload), WorkloadPurpose.ADDED
    bound = BoundWorkload(task, workload, purpose, groundwork.rng, make_arena=make, sets=sets, contents=check.contents)
    stack.callback(bound.close)
    return bound


def with_answers(groundwork: Groundwork, hidden: Iterable[BoundWorkload]) -> tuple[BoundWorkload, ...]:
    """Return hidden workloads, but those beyond the ranges of the task only where the reference has a finite answer.

    There one size may be as large as in the search while the others are small: `topk(k)` fails on shorter rows.
    """
    task = groundwork.task
    offered = task.workloads[groundwork.device_class]
    return tuple(
        bound for bound in hidden if within_ranges(offered, bound.workload) or has_answer(bound, task.distributions[0])
    )


def timed(workloads: Iterable[BoundWorkload]) -> tuple[BoundWorkload, ...]:
    """Return the timed workloads: search ones, and held-out ones for a winner."""
    return tuple(bound for bound in workloads if bound.kind in TIMED)

"""Which hidden workloads a bench has."""

from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.bench.groundwork import Groundwork, with_answers
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEARCHED = Workload("w", {"N": 400, "K": 100})
LARGEST = Task(
    name="largest",
    reference=lambda x, **sizes: x.topk(sizes["K"]).values,
    signature=Signature((Tensor("x", ("N",)),), (Scalar("N"), Scalar("K")), (Tensor("y", ("K",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet(search=(SEARCHED,), holdout=(SEARCHED,), probe={"N": (32, 64), "K": (1, 32)})},
    flops="N",
)


def arena(task: Task, shape: Workload, sets: int) -> HostArena:
    return HostArena.for_signature(task.signature, shape.sizes, sets=sets)


def left_of(task: Task, *shapes: tuple[int, int]) -> list[tuple[int, ...]]:
    sandbox: Any = None
    ground = Groundwork(task, "cpu", sandbox, np.random.default_rng(0))
    found = []
    for n, k in shapes:
        shape = Workload("alone", {"N": n, "K": k})
        make = partial(arena, task, shape)
        one = BoundWorkload(task, shape, WorkloadPurpose.PROBE, ground.rng, make_arena=make, sets=1)
        with closing(one):
            found += [tuple(bound.workload.sizes.values()) for bound in with_answers(ground, [one])]
    return found


def test_a_shape_as_large_as_in_the_search_is_left_out_where_the_reference_fails() -> None:
    assert left_of(LARGEST, (64, 32), (400, 100), (32, 100)) == [(64, 32), (400, 100)]


def test_a_shape_within_the_ranges_of_the_task_stays_whatever_the_reference_says_so_that_its_error_is_told() -> None:
    def fails(x: torch.Tensor, **_: int) -> torch.Tensor:
        raise ValueError("an error in the reference")

    task = Task("fails", fails, LARGEST.signature, LARGEST.workloads, flops="N")
    assert left_of(task, (64, 32), (400, 100)) == [(64, 32)]

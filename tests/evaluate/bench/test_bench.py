"""What a bench does with the memory of its workloads."""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet

LARGE, SMALL = Workload("large", {"N": 1 << 19}), Workload("small", {"N": 8})
TASK = Task(
    name="double",
    reference=lambda x, **_: 2 * x,
    signature=Signature((Tensor("x", ("N",)),), (), (Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet(search=(SMALL,), holdout=(SMALL,), probe={})},
    flops="N",
)


def arena(workload: Workload, sets: int) -> HostArena:
    return HostArena.for_signature(TASK.signature, workload.sizes, sets=sets)


@pytest.fixture
def bounds() -> Iterator[list[BoundWorkload]]:
    made = [
        BoundWorkload(
            *(TASK, workload, WorkloadPurpose.PROBE, np.random.default_rng(0)),
            make_arena=partial(arena, workload),
            sets=1,
        )
        for workload in (SMALL, LARGE, LARGE, SMALL)
    ]
    yield made
    for each in made:
        each.close()


def test_large_shapes_of_one_call_give_their_memory_to_others(bounds: list[BoundWorkload]) -> None:
    own, odd, fenced, tiny = bounds
    stand_in: Any = SimpleNamespace(
        settings=None,
        task_spec="",
        threads=1,
        final=False,
        task=TASK,
        sandbox=None,
        rng=None,
        case_bytes=1,
        compiles_for_shapes=False,
    )
    nothing: Any = None
    bench = Bench(
        *(stand_in, stand_in),
        device=stand_in,
        workers=nothing,
        anchors=nothing,
        workloads=(own,),
        bind_added=nothing,
        baselines=(),
        sheet={},
    )
    bench.odd, bench.fenced = (odd, tiny), (fenced,)
    for each in bounds:
        each.case("normal")
    bench.spare_memory(own)
    assert [each.case_bytes > 0 for each in bounds] == [True, False, False, True]

"""What a workload's buffers hold before, between and after calls."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose, draw_ahead, spare_memory
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.canary import is_poison
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

WORKLOAD = Workload("w", {"N": 37})
TASK = Task(
    name="accumulate",
    reference=lambda x, s, **_: (s + x, 2 * x),
    signature=Signature(
        inputs=(Tensor("x", ("N",)), Tensor("s", ("N",), role=Role.INOUT)),
        scalars=(Scalar("N"),),
        outputs=(Tensor("y", ("N",), role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"N": (1, 40)})},
    flops="N",
)


@pytest.fixture
def ground():
    make = partial(make_arena, TASK.signature, WORKLOAD.sizes)
    made = BoundWorkload(TASK, WORKLOAD, WorkloadPurpose.SEARCH, np.random.default_rng(0), make_arena=make)
    made.resize(4)
    yield made
    made.close()


def make_arena(signature, sizes, sets):
    return HostArena.for_signature(signature, sizes, sets=sets)


def test_inputs_are_put_into_one_copy_whose_outputs_are_poisoned(ground):
    case = ground.case("normal")
    for index in range(4):
        for view in (*ground.views(index).values(), *ground.outputs(index)):
            view.fill_(5)
    ground.put(2, case.inputs)
    assert all(torch.equal(view, case.inputs[name]) for name, view in ground.views(2).items())
    accumulated, doubled = ground.outputs(2)
    assert torch.equal(accumulated, case.inputs["s"])
    assert is_poison(doubled, ground.poison_word).all()
    assert (ground.outputs(1)[1] == 5).all()
    ground.put(3, case.inputs, poisoned=False)
    assert all(torch.equal(view, case.inputs[name]) for name, view in ground.views(3).items())
    assert (ground.outputs(3)[1] == 5).all()
    assert ground.case("normal") is case


def test_inputs_are_drawn_ahead_until_something_else_is_ready(ground):
    asked = iter([False, False, True])
    draw_ahead([(ground, each) for each in ground.distributions], until=lambda: next(asked), most_bytes=1 << 20)
    before = ground._rng.bit_generator.state
    for distribution in ground.distributions[:2]:
        ground.case(distribution)
    assert ground._rng.bit_generator.state == before
    ground.case(ground.distributions[2])
    assert ground._rng.bit_generator.state != before


def test_no_more_is_drawn_ahead_than_there_is_memory_for(ground):
    other = BoundWorkload(
        TASK, WORKLOAD, WorkloadPurpose.PROBE, np.random.default_rng(1), make_arena=ground._make, sets=1
    )
    draw_ahead([(ground, "normal"), (other, "normal")], until=lambda: False, most_bytes=1)
    assert ground.case_bytes > 1
    assert other.case_bytes == 0


def test_wiping_leaves_neither_inputs_nor_answers(ground):
    for index in range(4):
        for view in (*ground.views(index).values(), *ground.outputs(index)):
            view.fill_(5)
    ground.wipe(3)
    for index in range(3):
        assert not any(view.any() for view in ground.views(index).values())
        assert is_poison(ground.outputs(index)[1], ground.poison_word).all()
    assert (ground.views(3)["x"] == 5).all()
    assert (ground.outputs(3)[1] == 5).all()


def test_all_outputs_are_views_of_the_copies(ground):
    ground.poison_all(4)
    accumulated, doubled = ground.all_outputs(3)
    assert accumulated.shape == doubled.shape == (3, 37)
    assert is_poison(doubled[1], ground.poison_word).all()
    doubled[1] = 8
    assert (ground.outputs(1)[1] == 8).all()


def test_a_resized_ground_is_attached_anew(ground):
    seen, known = [], set[Any]()

    class Runner:
        def attach(self, name, arena, scalars):
            seen.append((name, arena.sets, dict(scalars)))

    for sets in (4, 2):
        ground.resize(sets)
        for _ in range(2):
            ground.attach(Runner(), known)
    assert [row[1:] for row in seen] == [(4, {"N": 37}), (2, {"N": 37})]
    assert len({row[0] for row in seen}) == 2
    assert ground.sets == 2
    assert ground.set_bytes > 3 * 37 * 4


def test_cases_of_other_workloads_are_forgotten_where_all_take_too_much(ground):
    make = partial(make_arena, TASK.signature, WORKLOAD.sizes)
    other = BoundWorkload(TASK, WORKLOAD, WorkloadPurpose.PROBE, np.random.default_rng(1), make_arena=make)
    due = ground.due_bytes
    mine, theirs = ground.case("normal"), other.case("normal")
    assert ground.case_bytes == sum(t.nbytes for t in mine.inputs.values()) + 2 * 37 * (8 + 4)
    assert due == len(ground.distributions) * ground.case_bytes
    assert ground.case_bytes + ground.due_bytes == due
    spare_memory([other, ground], ground, most_bytes=due + other.case_bytes)
    assert (ground.case("normal"), other.case("normal")) == (mine, theirs)
    spare_memory([other, ground], ground, most_bytes=due)
    assert ground.case("normal") is mine
    assert other.case_bytes == 0
    assert other.case("normal") is not theirs
    other.forget_cases()
    tolerance = other.tolerance("normal")
    assert [each.limits for each in tolerance.outputs] != [each.limits for each in mine.expected.outputs]
    assert [each.native.shape for each in tolerance.outputs] == [(37,), (37,)]
    assert sum(each.high.untyped_storage().nbytes() for each in tolerance.outputs) == 2 * 8
    assert other.case_bytes == 0
    other.close()

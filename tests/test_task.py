"""A task on one class of devices: its workloads, its dtype, its baselines."""

from dataclasses import replace
from typing import Any

import pytest

from evokernel.errors import TaskError
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def eager(inputs: Any, outputs: Any) -> None:
    outputs[0].copy_(inputs["x"])


def compiled(inputs: Any, outputs: Any) -> None:
    outputs[0].copy_(inputs["x"])


def workloads(extent: int, **more: Any) -> WorkloadSet:
    one = (Workload("w", {"N": extent}),)
    return WorkloadSet(search=one, holdout=one, probe={"N": (1, extent)}, **more)


TASK = Task(
    name="picking",
    reference=lambda x, **_: x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)), Tensor("rows", ("N",), dtype="int64"), Tensor("s", ("N",), role=Role.INOUT)),
        scalars=(Scalar("N"),),
        outputs=(Tensor("y", ("N",), role=Role.OUTPUT),),
    ),
    workloads={"cpu": workloads(8), "cuda": workloads(4096, dtype="bfloat16", baselines={"compiled": compiled})},
    flops="N",
    baselines={"eager": eager},
)


def dtypes(task: Task) -> dict[str, str]:
    return {tensor.name: tensor.dtype for tensor in task.signature.tensors}


def test_a_class_that_says_nothing_of_its_own_has_what_the_task_says():
    here = TASK.on("cpu")
    assert here.workloads == {"cpu": TASK.workloads["cpu"]}
    assert here.signature == TASK.signature
    assert here.baselines == {"eager": eager}


def test_a_class_changes_the_dtype_of_floating_point_tensors_alone_and_the_baselines():
    there = TASK.on("cuda")
    assert there.workloads == {"cuda": TASK.workloads["cuda"]}
    assert dtypes(there) == {"x": "bfloat16", "rows": "int64", "s": "bfloat16", "y": "bfloat16"}
    assert there.signature.scalars == TASK.signature.scalars
    assert [tensor.role for tensor in there.signature.tensors] == [tensor.role for tensor in TASK.signature.tensors]
    assert there.baselines == {"compiled": compiled}


def test_bytes_follow_the_dtype():
    (workload,) = TASK.workloads["cuda"].search
    assert TASK.bytes_at(workload) == 4096 * (4 + 8 + 4 + 4)
    assert TASK.on("cuda").bytes_at(workload) == 4096 * (2 + 8 + 2 + 2)


def test_a_class_may_count_its_bytes_itself():
    there = replace(TASK.workloads["cuda"], bytes_moved="2 * N")
    task = replace(TASK, bytes_moved="4 * N", workloads={**TASK.workloads, "cuda": there})
    (workload,) = there.search
    assert (task.on("cpu").bytes_at(workload), task.on("cuda").bytes_at(workload)) == (4 * 4096, 2 * 4096)


@pytest.mark.parametrize("device_class", ["cpu", "cuda"])
def test_resolving_twice_changes_nothing(device_class: str):
    assert TASK.on(device_class).on(device_class) == TASK.on(device_class)


def test_a_class_without_workloads_is_refused_with_those_there_are():
    with pytest.raises(TaskError, match=r"'picking' has no workloads for device class 'npu'; it has: cpu, cuda$"):
        TASK.on("npu")
    with pytest.raises(TaskError, match=r"it has: cpu$"):
        TASK.on("cpu").on("cuda")
    with pytest.raises(TaskError, match=r"it has: none$"):
        replace(TASK, workloads={}).on("cpu")

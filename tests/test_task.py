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


def strided(strides: Any, *, probe: Any = None, **more: Any) -> Task:
    tensor = Tensor("a", ("M", "K"), strides=strides, **more)
    sizes = {"M": 4, "K": 6, "LDA": 8}
    return Task(
        name="strided",
        reference=lambda a, **_: a.sum(1),
        signature=Signature((tensor,), (Scalar("M"), Scalar("K")), (Tensor("y", ("M",), role=Role.OUTPUT),)),
        workloads={
            "cpu": WorkloadSet(
                search=(Workload("w", sizes),),
                holdout=(Workload("h", sizes),),
                probe=probe or {"M": (1, 9), "K": (1, 9), "LDA": ("K", "K + 5")},
            )
        },
        flops="M * K",
    )


def test_strides_may_name_sizes_of_their_own_which_follow_the_scalars():
    task = strided(("LDA", 1))
    assert [scalar.name for scalar in task.signature.scalars] == ["M", "K", "LDA"]
    (a,) = task.signature.inputs
    sizes = {"M": 4, "K": 6, "LDA": 8}
    assert a.strides_at(sizes) == (8, 1)
    assert a.bytes_at(sizes) == 4 * 6 * 4, "the traffic counts elements"
    assert a.storage_bytes_at(sizes) == (3 * 8 + 6) * 4
    assert [s.name for s in strided(("K", 1)).signature.scalars] == ["M", "K"]
    assert [s.name for s in task.on("cpu").signature.with_floats("float16").scalars] == ["M", "K", "LDA"]


BAD_STRIDES = {
    "overlap": (lambda: strided(("K - 1", 1)), "overlap"),
    "overlap of both": (lambda: strided((1, 1)), "overlap"),
    "zero": (lambda: strided((0, 1)), "at least 1"),
    "negative": (lambda: strided(("-LDA", 1)), "at least 1"),
    "negative number": (lambda: strided((-8, 1)), "at least 1 element, not -8"),
    "rank": (lambda: strided(("LDA", 1, 1)), "2 dimensions"),
    "no number": (lambda: strided((8.5, 1)), "must be a tuple"),
    "no tuple": (lambda: strided("LDA"), "must be a tuple"),
    "no expression": (lambda: strided(("LDA +", 1)), "not an integer expression"),
    "unknown size": (lambda: strided(("LDX", 1)), "lacks ['LDX']"),
    "in/out": (lambda: strided(("LDA", 1), role=Role.INOUT), "inputs that are only read"),
    "output": (lambda: Tensor("y", ("M",), role=Role.OUTPUT, strides=(2,)), "inputs that are only read"),
    "hidden sizes": (
        lambda: strided(("LDA", 1), probe={"M": (1, 9), "K": (1, 9), "LDA": (8, 16)}), "WorkloadSet.probe",
    ),
    "an empty range": (lambda: strided(("LDA", 1), probe={"K": (1, 9), "LDA": ("K", 5)}), "from 9 to 5"),
    "a range over a later size": (lambda: strided(("LDA", 1), probe={"LDA": ("K", 50), "K": (1, 9)}), "'K'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_STRIDES)
def test_strides_that_fit_nothing_are_refused_with_a_reason(name: str):
    make, said = BAD_STRIDES[name]
    with pytest.raises(TaskError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(("device", "dtype", "said"), [("cpu", "float16", "'cuda'"), ("cuda", "int32", "float16")])
def test_further_dtypes_are_floating_point_ones_of_gpus(device: str, dtype: str, said: str):
    with pytest.raises(TaskError, match=said):
        replace(TASK, workloads={device: workloads(8, further_dtypes=(dtype,))})

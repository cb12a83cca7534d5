"""The reference is called on copies, strictly, and what it returns stays as it was."""

import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.references import high_answer, native_answer, strict_torch
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

WORKLOAD = Workload("w", {"N": 8, "f": 0.1})
STATE = torch.zeros(8)


def make(reference):
    return Task(
        name="t",
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("N",)), Tensor("i", ("N",), "int32")),
            scalars=(Scalar("N"), Scalar("f", "float32")),
            outputs=(Tensor("y", ("N",), role=Role.OUTPUT),),
        ),
        workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"N": (1, 8)})},
        flops="N",
    )


def inputs():
    return {"x": torch.arange(8.0), "i": torch.ones(8, dtype=torch.int32)}


def settings():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        cudnn.allow_tf32,
        matmul.allow_tf32,
        matmul.allow_fp16_reduced_precision_reduction,
        matmul.allow_bf16_reduced_precision_reduction,
    )


def test_everything_is_strict_within_and_as_before_after():
    before = settings()
    with strict_torch():
        assert settings() == (1, "highest", False, False, False, False)
        assert not torch.is_grad_enabled()
    assert settings() == before


@pytest.mark.parametrize("answer", [native_answer, high_answer])
def test_a_reference_that_works_in_place_leaves_the_inputs_alone(answer):
    given = inputs()
    (result,) = answer(make(lambda x, i, **_: x.mul_(i.add_(1))), WORKLOAD, given)
    assert result.tolist() == [2.0 * k for k in range(8)]
    assert torch.equal(given["x"], inputs()["x"])
    assert torch.equal(given["i"], inputs()["i"])


def test_a_result_is_the_callers_own():
    task = make(lambda x, **_: STATE.add_(x))
    (first,) = native_answer(task, WORKLOAD, inputs())
    (second,) = native_answer(task, WORKLOAD, inputs())
    assert torch.equal(2 * first, second)


def test_the_fp64_answer_gets_the_rounded_scalar():
    (result,) = high_answer(make(lambda x, f, **_: x * 0 + f), WORKLOAD, inputs())
    assert result.dtype == torch.float64
    assert result[0].item() == torch.tensor(0.1).double().item() != 0.1


def test_the_fp64_answer_is_exact_where_the_reference_makes_tensors_of_its_own():
    task = make(lambda x, **_: torch.tril(torch.ones(8, 8)) @ (x * torch.tensor(0.1)))
    (result,) = high_answer(task, WORKLOAD, inputs())
    assert result[1].item() == 0.1
    assert torch.get_default_dtype() is torch.float32
    assert native_answer(task, WORKLOAD, inputs())[0].dtype is torch.float32


def test_a_result_on_another_device_is_told():
    task = make(lambda x, **_: torch.empty_like(x, device="meta"))
    with pytest.raises(TaskError, match="lies on meta: make new tensors on the device of the inputs"):
        native_answer(task, WORKLOAD, inputs())

"""Results that are tiny beside numbers on their way: as exact as fp64 is the judge, and no less."""

from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.correctness import judge_output, judge_timed
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

F = torch.nn.functional
ONE, MANY = Workload("1x1", {"R": 1, "C": 1}), Workload("64x96", {"R": 64, "C": 96})


def make(reference, *names, precision=None, dtype="float32"):
    return Task(
        name="tiny_results",
        reference=lambda **given: reference(*(given[name] for name in names)),
        signature=Signature(
            inputs=tuple(Tensor(name, ("R", "C"), dtype) for name in names),
            scalars=(Scalar("R"), Scalar("C")),
            outputs=(Tensor("y", ("R", "C"), dtype, Role.OUTPUT),),
        ),
        workloads={"cpu": WorkloadSet(search=(MANY,), holdout=(MANY,), probe={"R": (1, 9), "C": (1, 9)})},
        flops="R * C",
        precision=precision or Precision(),
    )


def soft_loss(x, z):
    return F.binary_cross_entropy_with_logits(x, torch.sigmoid(z), reduction="none")


def exact_soft_loss(x, z):
    return x / (1 + z.exp()) + torch.log1p((-x.abs()).exp()) - x.clamp(max=0)


def exact_tail(x):
    return torch.log1p((-x).exp())


SATURATING: dict[str, tuple[Any, Any, tuple[float, ...]]] = {
    "a loss": (soft_loss, exact_soft_loss, (800.0, 62.0)),
    "a loss that is not 0": (soft_loss, exact_soft_loss, (78.0, 62.0)),
    "a logarithm of 1": (lambda x: -torch.log(torch.sigmoid(x)), exact_tail, (60.0,)),
    "a sum of 1": (lambda x: torch.log(1 + torch.exp(-x)), exact_tail, (48.0,)),
    "what tanh leaves": (lambda x: 1 - torch.tanh(x), lambda x: 2 / (torch.exp(2 * x) + 1), (21.0,)),
    "gelu": (F.gelu, lambda x: 0.5 * x * torch.erfc(-x * 0.5**0.5), (-9.0,)),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / (1 + torch.exp(-1.5957691216057308 * (x + 0.044715 * x**3))),
        (-8.6,),
    ),
    "a logarithm of shares": (
        lambda x: torch.log_softmax(torch.stack([x, -x]), 0)[0],
        lambda x: -torch.log1p(torch.exp(-2 * x)),
        (30.0,),
    ),
}


@pytest.mark.parametrize("workload", [ONE, MANY], ids=lambda workload: workload.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SATURATING)
def test_a_kernel_is_right_that_is_more_exact_than_fp64_on_the_way_of_the_reference(case, dtype, workload):
    reference, exact, numbers = SATURATING[case]
    task = make(reference, *"xz"[: len(numbers)], dtype=dtype)
    shape = tuple(workload.dims.values())
    inputs = {
        name: torch.full(shape, number, dtype=getattr(torch, dtype))
        for name, number in zip("xz", numbers, strict=False)
    }
    expected, answer = expect(task, workload, inputs, distribution="needles"), exact(*inputs.values())
    native = native_answer(task, workload, inputs)
    assert answer.abs().max() > 0
    assert (answer - expected.outputs[0].high).abs().max() > 1e-30  # it is not the reference's number
    assert judge_output(expected, [answer]) is None
    assert judge_timed(expected.tolerance(), [answer], native=native) is None
    off = answer + 1e-9 * max(map(abs, numbers))
    assert judge_output(expected, [off]) is not None
    assert judge_timed(expected.tolerance(), [off], native=native) is not None


def test_the_tolerance_of_a_tiny_result_does_not_grow_with_results_of_other_contents():
    task = make(lambda x: -torch.log(torch.sigmoid(x)), "x")
    few = expect(task, ONE, {"x": torch.full((1, 1), 60.0)}, distribution="needles").tolerance()
    loud = {"x": torch.full((1, 1), -20.0)}
    native = native_answer(task, ONE, loud)
    assert judge_timed(few, [native[0] * (1 + 1e-7)], native=native) is None
    assert judge_timed(few, [native[0] * (1 + 1e-4)], native=native) is not None


@pytest.mark.parametrize(
    ("reference", "numbers"),
    [
        (torch.relu, (-60.0,)),
        (lambda x: torch.where(x < 0, torch.sigmoid(x), 0.0), (60.0,)),
        (lambda x, z: x * (z > 0), (60.0, -1.0)),
        (lambda x, z: torch.sigmoid(x) * z, (60.0, 0.0)),
        (lambda x: (x - x) * torch.exp(x), (60.0,)),
    ],
    ids=["relu", "where", "mask", "factor", "difference"],
)
def test_what_is_0_for_a_reason_stays_0(reference, numbers):
    task = make(reference, *"xz"[: len(numbers)])
    inputs = {name: torch.full((64, 96), number) for name, number in zip("xz", numbers, strict=False)}
    expected = expect(task, MANY, inputs, distribution="needles")
    assert judge_output(expected, [torch.zeros(64, 96)]) is None
    assert judge_output(expected, [torch.full((64, 96), 1e-35)]) is not None


def test_numbers_that_must_be_exact_on_integers_stay_exact():
    task = make(lambda x: x - torch.relu(x), "x", precision=Precision(exact_on_integers=True))
    inputs = {"x": torch.ones(64, 96)}
    expected = expect(task, MANY, inputs, distribution="integers01")
    assert judge_output(expected, [torch.zeros(64, 96)]) is None
    assert judge_output(expected, [torch.full((64, 96), 1e-30)]) is not None


@pytest.mark.parametrize(
    "reference",
    [
        F.silu,
        torch.tanh,
        F.gelu,
        torch.expm1,
        lambda x: x * torch.sigmoid(x),
        lambda x: x / (1 + x.abs()),
        lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: x.square().cumsum(-1),
    ],
)
def test_tiny_numbers_are_not_taken_for_0(reference):
    task = make(reference, "x", precision=Precision(reduction="C"))
    inputs = draw(task, MANY, "tiny", np.random.default_rng(0))
    expected = expect(task, MANY, inputs, distribution="tiny")
    due = expected.outputs[0].high.float()
    assert judge_output(expected, [due]) is None
    assert judge_output(expected, [torch.zeros(64, 96)]) is not None
    assert judge_output(expected, [due * (1 + 1e-3)]) is not None

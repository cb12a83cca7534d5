"""Floats behind a decision: honest kernels may decide otherwise at an edge, and nowhere else."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.workload import HiddenCase
from evokernel.evaluate.numerics.correctness import alike_calls, judge_output, judge_timed
from evokernel.evaluate.numerics.decisions import DecisionLog
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

ROWS = Workload("rows", {"R": 2000, "C": 96, "K": 64})


def product_one_by_one(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return a product whose terms are added up one by one, in fp32."""
    product = torch.zeros(x.shape[0], w.shape[1])
    for k in range(w.shape[0]):
        product += x[:, k, None] * w[k]
    return product


def in_bf16(values: torch.Tensor) -> torch.Tensor:
    return values.bfloat16().float()


def nearest_code(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    return w.t()[((x * x).sum(-1, keepdim=True) - 2 * x @ w + (w * w).sum(0)).argmin(-1)]


def nearest_code_kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return w.t()[((w * w).sum(0) - 2 * product_one_by_one(x, w)).argmin(-1)]


def quantised(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    product = x @ w
    scale = product.abs().amax(-1, keepdim=True) / 127
    return (product / scale).round().clamp(-128, 127) * scale


def quantised_kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    product = product_one_by_one(x, w)
    scale = product.abs().amax(-1, keepdim=True) * (1 / 127)
    return (product * (1 / scale)).round().clamp(-128, 127) * scale


def largest_kept(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    product = x @ w
    return product.masked_fill(product < product.topk(4, -1).values[:, -1:], -torch.inf)


def largest_kept_kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    product = product_one_by_one(x, w)
    return product.masked_fill(product < product.sort(-1, descending=True).values[:, 3:4], -torch.inf)


def spikes(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    product = x @ w
    potential, count = torch.zeros_like(product), torch.zeros_like(product)
    for _step in range(8):
        potential = 0.9 * potential + product
        fired = (potential > 8).to(x.dtype)
        potential, count = potential - 8 * fired, count + fired
    return count


def spikes_kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    product = product_one_by_one(x, w)
    potential, count = torch.zeros_like(product), torch.zeros_like(product)
    for _step in range(8):
        potential = torch.addcmul(product, potential, torch.tensor(0.9))
        fired = potential > 8
        potential, count = torch.where(fired, potential - 8, potential), count + fired
    return count


PAIRS = [
    (nearest_code, nearest_code_kernel, ("R", "K")),
    (quantised, quantised_kernel, ("R", "C")),
    (largest_kept, largest_kept_kernel, ("R", "C")),
    (spikes, spikes_kernel, ("R", "C")),  # of offset numbers each is one
]


def task_of(reference: Callable[..., torch.Tensor], shape: tuple[str, ...]) -> Task:
    return Task(
        name="deciding",
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("R", "K")), Tensor("w", ("K", "C"))),
            scalars=(Scalar("R"), Scalar("C"), Scalar("K")),
            outputs=(Tensor("z", shape, role=Role.OUTPUT),),
        ),
        workloads={"cpu": WorkloadSet(search=(ROWS,), holdout=(ROWS,), probe={"R": (2, 9), "C": (5, 9), "K": (1, 9)})},
        flops="R * C * K",
        precision=Precision(reduction="K"),
    )


CASES = [(*pair, distribution) for pair in PAIRS for distribution in ("normal", "offset")][:-1]


@pytest.mark.parametrize(("reference", "kernel", "shape", "distribution"), CASES)
def test_an_honest_kernel_may_decide_otherwise_at_an_edge(reference, kernel, shape, distribution):
    task = task_of(reference, shape)
    inputs = draw(task, ROWS, distribution, np.random.default_rng(1))
    expected = expect(task, ROWS, inputs, distribution=distribution)
    assert judge_output(expected, [kernel(**inputs)]) is None
    assert judge_output(expected, [kernel(**{name: in_bf16(each) for name, each in inputs.items()})]) is not None


def test_a_case_counts_the_answers_that_it_makes_when_it_is_asked_for_edges():
    task = task_of(quantised, ("R", "C"))
    inputs = draw(task, ROWS, "normal", np.random.default_rng(0))
    case = HiddenCase(inputs, expect(task, ROWS, inputs, distribution="normal"))
    before = case.bytes
    assert any(case.expected.outputs[0].ends())
    assert case.bytes == before + 2 * case.expected.outputs[0].high.nbytes


@pytest.mark.parametrize("shift", [1e-3, -1e-3])
def test_a_threshold_a_little_off_is_seen_however_large_the_jump(shift):
    task = task_of(quantised, ("R", "C"))
    inputs = draw(task, ROWS, "normal", np.random.default_rng(2))
    expected = expect(task, ROWS, inputs, distribution="normal")
    product = inputs["x"] @ inputs["w"]
    scale = product.abs().amax(-1, keepdim=True) / 127
    assert judge_output(expected, [(product / scale).round().clamp(-128, 127) * scale]) is None
    assert judge_output(expected, [(product / scale + shift).round().clamp(-128, 127) * scale]) is not None


def test_a_decision_widens_no_tolerance_of_the_numbers_behind_it():
    task = task_of(largest_kept, ("R", "C"))
    inputs = draw(task, ROWS, "normal", np.random.default_rng(3))
    expected = expect(task, ROWS, inputs, distribution="normal")
    answer = largest_kept_kernel(**inputs)
    assert judge_output(expected, [answer]) is None
    assert judge_output(expected, [answer * (1 + 2**-17)]) is not None


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("distribution", ["integers01", "needles"])
def test_numbers_that_tie_may_come_in_any_order_unless_the_reference_fixes_it(stable, distribution):
    def places(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return x.sort(dim=0, stable=stable).indices.to(x.dtype) + 0 * w.sum()

    task = task_of(places, ("R", "K"))
    inputs = draw(task, ROWS, distribution, np.random.default_rng(6))
    expected = expect(task, ROWS, inputs, distribution=distribution)
    last_first = len(inputs["x"]) - 1 - inputs["x"].flip(0).sort(dim=0, stable=True).indices
    assert (judge_output(expected, [last_first.float()]) is None) is not stable


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_elements_far_off_are_no_missed_edges(dtype):
    def levels(x: torch.Tensor, **_: int) -> torch.Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().clamp(-128, 127) * scale

    task = replace(
        task_of(levels, ("R", "K")),
        signature=Signature(
            inputs=(Tensor("x", ("R", "K"), dtype),),
            scalars=(Scalar("R"), Scalar("C"), Scalar("K")),
            outputs=(Tensor("z", ("R", "K"), dtype, role=Role.OUTPUT),),
        ),
    )
    inputs = draw(task, ROWS, "normal", np.random.default_rng(7))
    expected = expect(task, ROWS, inputs, distribution="normal")
    answer = levels(inputs["x"].float()).to(inputs["x"].dtype)
    assert judge_output(expected, [answer]) is None
    answer.view(-1)[-5:] = 30000.0
    assert judge_output(expected, [answer]) is not None


def finely_rounded(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    return (1000 * (x @ w)).round() / 1000


def test_in_a_timed_call_as_many_elements_may_jump_as_the_native_answer_tells():
    task = task_of(finely_rounded, ("R", "C"))
    one, other = (draw(task, ROWS, "normal", np.random.default_rng(seed)) for seed in (4, 5))
    expected = expect(task, ROWS, one, distribution="normal")
    native, answer = native_answer(task, ROWS, other), (1000 * product_one_by_one(**other)).round() / 1000
    edges = math.ceil(2 * expected.outputs[0].edge_share * answer.numel())
    assert 0 < int(((answer - native[0]).abs() > 5e-4).sum()) <= edges < 2000
    assert judge_timed(expected, [answer], native=native) is None
    for places, value in ((slice(7, 8), math.nan), (slice(edges + 1), 20.0)):
        wrong = answer.clone()
        wrong.view(-1)[places] = value
        assert judge_timed(expected, [wrong], native=native) is not None


def few_levels(x: torch.Tensor, w: torch.Tensor, **_: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    values, places = x.topk(8)
    return values, places, w.sum(1)[places]


def test_timed_calls_are_alike_where_numbers_tie_and_nothing_else_differs():
    bf16 = Tensor("x", ("R", "K"), "bfloat16"), Tensor("w", ("K", "C"), "bfloat16")
    shapes = ("bfloat16", "int64", "bfloat16")
    outputs = tuple(Tensor(f"z{place}", ("R", 8), dtype, Role.OUTPUT) for place, dtype in enumerate(shapes))
    task = task_of(few_levels, ("R", "C"))
    task = replace(task, signature=replace(task.signature, inputs=bf16, outputs=outputs))
    one, other = (draw(task, ROWS, "normal", np.random.default_rng(seed)) for seed in (4, 5))
    expected, native = (
        expect(task, ROWS, one, distribution="normal"),
        native_answer(task, ROWS, other),
    )
    rows, weights = other["x"], other["w"].sum(1)
    places = 63 - rows.flip(1).sort(dim=1, descending=True, stable=True).indices[:, :8]
    kernel = [rows.gather(1, places), places, weights[places]]
    differing = [float((mine != due).double().mean()) for mine, due in zip(kernel, native, strict=True)]
    assert min(differing[1:]) > 0.01 > differing[0]

    def alike(*results: torch.Tensor) -> bool:
        due = [each[None] for each in native]
        made = [each[None] for each in results]
        return bool(alike_calls(expected, made, due, share=1.0, rng=np.random.default_rng(0), among=[0])[0])

    assert alike(*kernel)
    wrong = [each.clone() for each in kernel]
    wrong[1][:1000] = (wrong[1][:1000] + 1) % 64
    assert not alike(*wrong)
    # a check of a single call knows which positions tie
    mine = 63 - one["x"].flip(1).sort(dim=1, descending=True, stable=True).indices[:, :8]
    values = one["x"].gather(1, mine), mine, one["w"].sum(1)[mine]
    assert judge_output(expected, values) is None
    spoilt = mine.clone()
    spoilt[7, 3] = one["x"][7].argmin()
    assert judge_output(expected, [values[0], spoilt, values[2]]) is not None


X = torch.tensor([[0.5, 1.5, 3.0, -2.5, 3.0, 0.5]], dtype=torch.float64)

DECIDING: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: (x > 0.5) * x,
    lambda x: x.clone().gt_(0.5) * 3,
    lambda x: x.round() - x.floor() + x.ceil() - x.trunc(),
    lambda x: torch.sign(x - 0.5),
    lambda x: torch.div(x, 0.5, rounding_mode="floor"),
    lambda x: x // 0.5,
    lambda x: torch.remainder(x, 0.5) + torch.fmod(x, 0.5) + x.frac(),
    lambda x: x.long().double(),
    lambda x: x.sort(-1).values + x.sort(-1).indices,
    lambda x: x.topk(3, 1).values + x.topk(3, 1).indices,
    lambda x: x.kthvalue(2, -1).values + x.kthvalue(2, -1).indices,
    lambda x: x.median(1, keepdim=True).values + x.median(1, keepdim=True).indices,
    lambda x: x.max(-1).values + x.argmax(-1),
    lambda x: x.cummax(-1).values + x.cummax(-1).indices,
    lambda x: torch.nn.functional.threshold(x, 1.5, 20.0),
    lambda x: torch.nn.functional.hardshrink(x, 1.5),
    lambda x: torch.bucketize(x, torch.tensor([0.5, 1.5, 3.0], dtype=torch.float64)).double(),
]


@pytest.mark.parametrize("place", range(len(DECIDING)))
def test_under_the_decisions_of_another_run_nothing_jumps(place):
    decide, step = DECIDING[place], torch.tensor([[1, 1, 1, -1, -1, -1]]) * 1e-9
    with DecisionLog() as log:
        answer = decide(X)
    jumps = []
    for moved in (X + step, X - step):
        jumps.append((decide(moved) - answer).abs().max() > 1e-3)
        with DecisionLog(log.decisions) as again:
            assert torch.allclose(decide(moved), answer, rtol=0, atol=1e-6)
        assert again.fits
    assert any(jumps)


def test_a_reference_whose_operations_depend_on_its_data_does_not_fit():
    def decide(x: torch.Tensor) -> torch.Tensor:
        return x.sort().values if x.sum().item() > 10 else x.round()

    with DecisionLog() as log:
        decide(X.abs())
    with DecisionLog(log.decisions) as other:
        decide(X)
    assert not other.fits

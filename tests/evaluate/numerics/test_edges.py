"""Whole numbers at an edge may fall either way, where arithmetic rounds before it, and nowhere else."""

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.correctness import judge_output, judge_timed
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet

WORKLOAD = Workload("w", {"R": 300, "C": 1000})


def quantised(x, y):
    return torch.round(50 * x / (y.abs() + 0.3)).clamp(-128, 127).to(torch.int8)


def by_reciprocal(x, y):
    """As a GPU divides: off by two units in the last place."""
    return torch.round(50 * x * (1 / (y.abs() + 0.3) * (1 + 2**-22))).clamp(-128, 127).to(torch.int8)


def found(
    reference, kernel, distribution="normal", dtype="float32", result="int8", second=("R", "C"), shape=("R", "C")
):
    """What is found of a kernel in a check, and in a timed call."""
    inputs = (Tensor("x", ("R", "C"), dtype), Tensor("y", second, dtype))
    task = Task(
        name="t",
        reference=lambda x, y, **_: reference(x, y),
        signature=Signature(inputs, (), (Tensor("z", shape, result, Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"R": (1, 9), "C": (1, 9)})},
        flops="R * C",
    )
    one, other = (draw(task, WORKLOAD, distribution, np.random.default_rng(seed)) for seed in (1, 2))
    expected = expect(task, WORKLOAD, one, distribution=distribution)
    timed = judge_timed(expected, [kernel(**other)], native=native_answer(task, WORKLOAD, other))
    return judge_output(expected, [kernel(**one)]), timed


@pytest.mark.parametrize("distribution", ["normal", "wide", "integers01"])
def test_another_order_of_operations_is_honest(distribution):
    inputs = {
        name: torch.randn(1000, 1000, generator=torch.Generator().manual_seed(place)) for place, name in enumerate("xy")
    }
    assert not torch.equal(quantised(**inputs), by_reciprocal(**inputs))
    assert found(quantised, by_reciprocal, distribution) == (None, None)


def test_fewer_bits_are_not():
    rough = found(quantised, lambda x, y: quantised(x.bfloat16().float(), y))
    assert None not in rough


def test_in_fp32_a_kernel_may_be_nearer_than_16_bit_torch():
    single, _ = found(quantised, lambda x, y: quantised(x.float(), y.float()), dtype="bfloat16")
    assert single is None


def test_a_comparison_of_inputs_has_no_edges():
    def greater(x, y):
        return x > y

    assert found(greater, greater, "integers01", result="bool") == (None, None)
    assert None not in found(greater, lambda x, y: x >= y, "integers01", result="bool")


def experts(x, y):
    """The two largest of 64 products, as a gate chooses experts."""
    return torch.topk(torch.softmax(x @ y, -1), 2, dim=-1).indices


def in_halves(x, y):
    """As a kernel adds up that splits the sum."""
    at = x.shape[1] // 2
    scores = x[:, :at].float() @ y[:at].float() + x[:, at:].float() @ y[at:].float()
    return torch.topk(torch.softmax(scores, -1), 2, dim=-1).indices


def rounded(x, y):
    """As a program of torch's compiler does, whose products are stored in the dtype of the inputs."""
    return torch.topk(torch.softmax((x.float() @ y.float()).to(x.dtype).float(), -1), 2, dim=-1).indices


RANKED = {"result": "int64", "second": ("C", 64), "shape": ("R", 2)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("distribution", ["normal", "wide", "integers01"])
@pytest.mark.parametrize("kernel", [in_halves, rounded])
def test_of_numbers_that_tie_either_may_rank_first(kernel, distribution, dtype):
    assert found(experts, kernel, distribution, dtype, **RANKED) == (None, None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, y: experts(x[:, :-1], y[:-1]),
        lambda x, y: experts(x, y).flip(1),
        lambda x, y: experts(x, y)[:, :1].expand(-1, 2).contiguous(),
        lambda x, y: torch.topk(x @ y, 3, dim=-1).indices[:, [0, 2]],
        lambda x, y: experts((x.float() * 8).round() / 8, y.float()),
    ],
)
def test_another_ranking_is_wrong(wrong, dtype):
    single, timed = found(experts, wrong, dtype=dtype, **RANKED)
    assert single is not None
    assert timed is not None or dtype == "bfloat16", "in 16 bits a timed call alone does not tell"


def test_a_ranking_of_inputs_has_no_edges():
    def best(x, y):
        return torch.argsort(x.bfloat16(), dim=1, stable=True)

    assert found(best, best, result="int64") == (None, None)
    assert None not in found(best, lambda x, y: torch.argsort(x, dim=1, stable=True), result="int64")

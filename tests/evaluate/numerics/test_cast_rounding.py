"""Casts to 16 bits in a reference: kernels that round in other places are right, and lost precision still shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.cast_rounding import CastFinder
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SIZES = Workload("96x80x160", {"M": 96, "N": 80, "K": 160})
DISTRIBUTIONS = ("normal", "wide", "offset", "integers01")


def short_product(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    return (x.bfloat16() @ w.to(torch.bfloat16)).float()


def rounded(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.bfloat16().float()


def orthogonal(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    """Steps of Newton and Schulz, as optimisers take them: each operation rounds."""
    x = (x @ w).to(dtype=torch.bfloat16)
    x = x / (x.norm() + 1e-7)
    for _step in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * (square @ square)) @ x
    return x.float()


def orthogonal_by_products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return it with operands of products rounded, and nothing else."""
    x = rounded(x @ w)
    x = rounded(x / (x.norm() + 1e-7))
    for _ in range(5):
        square = rounded(x @ x.T)
        x = rounded(3.4445 * x + rounded(-4.775 * square + 2.0315 * (square @ square)) @ x)
    return x


def judged(
    reference: Callable[..., torch.Tensor], answer: Callable[..., torch.Tensor], distribution: str, seed: int = 0
) -> Any:
    task = Task(
        name="short",
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("M", "K")), Tensor("w", ("K", "N"))),
            scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
            outputs=(Tensor("y", ("M", "N"), role=Role.OUTPUT),),
        ),
        workloads={
            "cpu": WorkloadSet(search=(SIZES,), holdout=(SIZES,), probe={"M": (2, 9), "N": (2, 9), "K": (2, 9)})
        },
        flops="2 * M * N * K",
        precision=Precision(reduction="K"),
    )
    inputs = draw(task, SIZES, distribution, np.random.default_rng(seed))
    expected = expect(task, SIZES, inputs, distribution=distribution)
    return judge_output(expected, [answer(inputs["x"].clone(), inputs["w"].clone())])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    "answer",
    [short_product, lambda x, w: rounded(x) @ rounded(w), lambda x, w: x @ w],
    ids=["as torch", "operands", "nowhere"],
)
def test_a_product_may_round_in_other_places(answer: Callable[..., torch.Tensor], distribution: str) -> None:
    assert judged(short_product, answer, distribution) is None


@pytest.mark.parametrize(
    "distribution", ["normal", "wide", "integers01"]
)  # of shifted numbers nothing but noise is left
@pytest.mark.parametrize("answer", [orthogonal, orthogonal_by_products], ids=["as torch", "operands"])
def test_so_may_each_of_several_steps(answer: Callable[..., torch.Tensor], distribution: str) -> None:
    assert judged(orthogonal, answer, distribution) is None


@pytest.mark.parametrize("distribution", ["normal", "wide", "offset"])
def test_eight_bits_are_too_few(distribution: str) -> None:
    def eight(numbers: torch.Tensor) -> torch.Tensor:
        largest = numbers.abs().amax()
        return (numbers * (400 / largest)).to(torch.float8_e4m3fn).float() * (largest / 400)

    assert judged(short_product, lambda x, w: eight(x) @ eight(w), distribution) is not None


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_term_that_is_left_out_is_found(distribution: str) -> None:
    def without_the_last(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return rounded(x[:, :-8]) @ rounded(w[:-8])

    assert judged(short_product, without_the_last, distribution) is not None


def test_a_reference_without_casts_allows_no_rounding_to_16_bits() -> None:
    def plain(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return x @ w

    assert judged(plain, lambda x, w: rounded(x) @ rounded(w), "normal") is not None


def test_casts_that_leave_nothing_do_not_excuse_what_is_wrong() -> None:
    """Most products of such numbers are beyond fp16, or nothing in it."""

    def small(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return (x * 1e-4).half().to(x.dtype) @ w

    assert judged(small, small, "wide") is None
    assert judged(small, lambda x, w: 0.5 * small(x, w), "wide") is not None


def test_a_number_that_only_a_cast_puts_beyond_fp16_may_be_finite() -> None:
    def half(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return (x.half() @ w.half()).to(x.dtype)

    def finite(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x.half().float() @ w.half().float()

    assert judged(half, finite, "offset") is None
    assert judged(half, half, "offset") is None
    assert judged(half, lambda x, w: finite(x, w) * torch.nan, "normal") is not None


def test_weights_of_16_bits_that_a_reference_brings_along_are_taken_as_they_are() -> None:
    weights = torch.linspace(-1, 1, 160).bfloat16()

    def weighted(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return (x.bfloat16() @ weights).to(x.dtype)[:, None] * w.sum(dim=0)

    assert judged(weighted, weighted, "normal") is None


def test_bits_that_are_taken_for_those_of_another_number_are_no_cast() -> None:
    with CastFinder(skip=True) as casts:
        numbers = torch.tensor([0x3F80, 0x4000], dtype=torch.int16).view(torch.bfloat16)
    assert not casts.found
    assert numbers.tolist() == [1.0, 2.0]

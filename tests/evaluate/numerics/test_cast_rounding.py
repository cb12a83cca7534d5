"""Casts to 16 bits in a reference: kernels that round in other places are right, and lost precision still shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.canary import is_poison
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
    reference: Callable[..., Any],
    answer: Callable[..., Any],
    distribution: str,
    seed: int = 0,
    sizes: Workload = SIZES,
    outputs: tuple[Tensor, ...] = (Tensor("y", ("M", "N"), role=Role.OUTPUT),),
    poison: int | None = None,
) -> Any:
    task = Task(
        name="short",
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("M", "K")), Tensor("w", ("K", "N"))),
            scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
            outputs=outputs,
        ),
        workloads={
            "cpu": WorkloadSet(search=(SIZES,), holdout=(SIZES,), probe={"M": (2, 9), "N": (2, 9), "K": (2, 9)})
        },
        flops="2 * M * N * K",
        precision=Precision(reduction="K"),
    )
    inputs = draw(task, sizes, distribution, np.random.default_rng(seed))
    expected = expect(task, sizes, inputs, distribution=distribution)
    answers = answer(inputs["x"].clone(), inputs["w"].clone())
    return judge_output(expected, [*answers] if isinstance(answers, tuple) else [answers], poison=poison)


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


def test_eight_bits_for_each_row_are_too_few() -> None:
    def rows(numbers: torch.Tensor) -> torch.Tensor:
        step = numbers.abs().amax(dim=1, keepdim=True) / 127
        return (numbers / step).round() * step

    for seed in range(3):
        assert judged(short_product, lambda x, w: rows(x) @ rows(w.T).T, "normal", seed=seed) is not None


def few(rows: int, columns: int, terms: int) -> Workload:
    return Workload("few", {"M": rows, "N": columns, "K": terms})


@pytest.mark.parametrize("distribution", ["normal", "wide"])
def test_one_result_may_be_rounded_elsewhere_too(distribution: str) -> None:
    """Torch's own two roundings may cancel there."""
    sizes = few(1, 1, 1)
    for seed in range(150):
        found = judged(short_product, lambda x, w: rounded(x) @ rounded(w), distribution, seed=seed, sizes=sizes)
        assert found is None, seed


def levels(x: torch.Tensor) -> torch.Tensor:
    return (x * 4).round().clamp(-127, 127).to(torch.int8)


def places(x: torch.Tensor) -> torch.Tensor:
    return x.argmax(dim=1)


WHOLE = {
    "levels": (levels, short_product, Tensor("y", ("M", "N"), "int8", role=Role.OUTPUT)),
    "places": (places, short_product, Tensor("y", ("M",), "int64", role=Role.OUTPUT)),
    "places in 16 bits": (
        places,
        lambda x, w, **_: x.bfloat16() @ w.bfloat16(),
        Tensor("y", ("M",), "int64", role=Role.OUTPUT),
    ),
}


@pytest.mark.parametrize(
    "distribution",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("normal", "wide", "offset")), "normal/coarse"],
)
@pytest.mark.parametrize("kind", WHOLE)
def test_whole_results_behind_casts_are_those_of_other_roundings(kind: str, distribution: str) -> None:
    decide, product, output = WHOLE[kind]
    answers = {
        "nowhere": lambda x, w: x @ w,
        "operands": lambda x, w: rounded(x) @ rounded(w),
        "as torch": lambda x, w: rounded(rounded(x) @ rounded(w)),
    }
    for sizes, seeds in ((few(1, 2, 2), 20), (few(2, 2, 5), 20), (few(33, 20, 129), 1)):
        for seed in range(seeds):
            for name, answer in answers.items():
                found = judged(
                    lambda x, w, **_: decide(product(x, w)),
                    lambda x, w, answer=answer: decide(answer(x, w)),
                    distribution,
                    seed=seed,
                    sizes=sizes,
                    outputs=(output,),
                )
                assert found is None, (sizes, seed, name)


def test_a_byte_at_an_edge_may_be_the_pattern_of_what_was_never_written() -> None:
    decide, product, output = WHOLE["levels"]
    sizes, found = few(2, 2, 5), 0
    for seed in range(60):
        seen: list[torch.Tensor] = []

        def right(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
            return decide(product(x, w))

        def nowhere(x: torch.Tensor, w: torch.Tensor, seen: list[torch.Tensor] = seen) -> torch.Tensor:
            seen += [right(x, w), decide(x @ w)]
            return seen[1]

        assert judged(right, nowhere, "normal", seed=seed, sizes=sizes, outputs=(output,)) is None
        patterns = [each for each in range(400) if (is_poison(seen[1], each) & (seen[0] != seen[1])).any()]
        for pattern in patterns[: 2 * ((seen[0] != seen[1]).sum() == 1)]:
            found += 1
            assert judged(right, nowhere, "normal", seed=seed, sizes=sizes, outputs=(output,), poison=pattern) is None
        if found:
            break
    assert found


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_results_behind_casts_need_all_terms(kind: str) -> None:
    decide, product, output = WHOLE[kind]

    def right(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
        return decide(product(x, w))

    def wrong(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return decide(product(x[:, :-4], w[:-4]))

    assert judged(right, wrong, "normal", outputs=(output,)) is not None


def test_whole_results_in_which_casts_have_no_say_keep_their_edges() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor, **_: int) -> tuple[torch.Tensor, torch.Tensor]:
        return short_product(x, w), levels(x / 0.07)

    def short(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return short_product(x, w), levels(rounded(rounded(x) / 0.07))

    outputs = (
        Tensor("y", ("M", "N"), role=Role.OUTPUT),
        Tensor("q", ("M", "K"), "int8", role=Role.OUTPUT),
    )
    assert judged(reference, reference, "normal", outputs=outputs) is None
    assert judged(reference, short, "normal", outputs=outputs) is not None


def test_a_choice_behind_casts_is_that_of_other_roundings() -> None:
    def chosen(products: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1] * products.argmax(dim=1, keepdim=True).to(x.dtype)

    output = (Tensor("y", ("M", 1), role=Role.OUTPUT),)
    for seed in range(10):
        found = judged(
            lambda x, w, **_: chosen(short_product(x, w), x),
            lambda x, w: chosen(x @ w, x),
            "offset",
            seed=seed,
            sizes=few(9, 20, 33),
            outputs=output,
        )
        assert found is None, seed


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

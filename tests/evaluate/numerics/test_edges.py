"""Whole numbers at an edge may fall either way, where arithmetic rounds before it, and nowhere else."""

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.correctness import judge_output, judge_timed
from evokernel.evaluate.numerics.edges import edge_answers
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.rankings import Ranking
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Precision, Role, Signature, Task, Tensor, Workload, WorkloadSet

WORKLOAD = Workload("w", {"R": 300, "C": 1000})
SMALL = Workload("small", {"R": 30, "C": 40})


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


def halves(x, y):
    """The largest of each row of y and half of it, both divided by what makes the largest 127: the half is a tie."""
    top = y.abs().amax(1, keepdim=True)
    return torch.round(torch.where(x > 0, top, top * 0.5) / (top / 127)).to(torch.int8)


def halves_from_below(x, y):
    """As a GPU divides: off by two units in the last place, so that all ties fall to the other side."""
    top = y.abs().amax(1, keepdim=True)
    return torch.round(torch.where(x > 0, top, top * 0.5) / (top / 127) * (1 - 2**-22)).to(torch.int8)


@pytest.mark.parametrize("distribution", ["normal", "wide"])
def test_all_ties_of_quotients_fall_either_way(distribution):
    assert found(halves, halves_from_below, distribution) == (None, None)


def test_what_is_rounded_on_the_way_from_bytes_to_bytes_has_edges_too():
    """As colours become grey: by tables or by whole numbers a level in the middle falls either way."""

    def grey(x, y):
        return (0.3 * x.float() + 0.7 * y.float()).round().to(torch.uint8)

    def by_whole_numbers(x, y):
        return ((3 * x.int() + 7 * y.int() + 5) // 10).to(torch.uint8)

    def cut_off(x, y):
        return (0.3 * x.float() + 0.7 * y.float()).to(torch.uint8)

    assert found(grey, by_whole_numbers, dtype="uint8", result="uint8") == (None, None)
    assert None not in found(grey, cut_off, dtype="uint8", result="uint8")


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


def test_what_is_compared_with_a_sorted_number_has_no_edges():
    """In runs in which any of equal numbers comes first, each is what it was: one of the largest is never left out."""

    def largest(x, y):
        return x >= x.topk(8, dim=1).values[:, -1:]

    assert found(largest, largest, result="bool") == (None, None)
    assert None not in found(largest, lambda x, y: x > x.topk(8, dim=1).values[:, -1:], result="bool")


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


def by_index(x, y):
    """As a program of torch's compiler ranks: of equal numbers the one with the lower index comes first."""
    shares = torch.softmax((x.float() @ y.float()).to(x.dtype).float(), -1)
    return torch.sort(shares, dim=-1, descending=True, stable=True).indices[:, :2].contiguous()


RANKED = {"result": "int64", "second": ("C", 64), "shape": ("R", 2)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("distribution", ["normal", "wide", "integers01", "offset"])
@pytest.mark.parametrize("kernel", [in_halves, rounded, by_index])
def test_of_numbers_that_tie_either_may_rank_first(kernel, distribution, dtype):
    single, timed = found(experts, kernel, distribution, dtype, **RANKED)
    assert single is None
    assert timed is None or kernel is by_index, "a clock asks what is due for those very inputs"


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


@pytest.mark.parametrize(
    ("ranks", "places", "is_open"),
    [
        (lambda x, y: torch.topk(x, 2, dim=1).indices, 2, True),
        (lambda x, y: torch.argsort(x, dim=1), "C", True),
        (lambda x, y: torch.argsort(x, dim=1, stable=True), "C", False),
        (lambda x, y: torch.argmax(x, dim=1, keepdim=True), 1, False),
        (lambda x, y: torch.max(x, dim=1, keepdim=True).indices, 1, False),
    ],
)
def test_of_inputs_that_tie_any_may_come_first_where_torch_leaves_that_open(ranks, places, is_open):
    def last_first(x, y):
        return x.shape[1] - 1 - ranks(x.flip(1), y)

    single, _ = found(ranks, last_first, "integers01", result="int64", shape=("R", places))
    assert (single is None) == is_open


@pytest.mark.parametrize(
    ("numbers", "is_open"),
    [
        (lambda x: x, False),
        (lambda x: x.clone().relu_()[:, 1:], False),
        (lambda x: torch.where(x > 0, x.abs(), -1.0), False),
        (lambda x: torch.softmax(1000.0 * x, dim=1), True),
        (lambda x: torch.cat([x[:, :2] @ x[:2], x], dim=1)[:, :900], True),
        (lambda x: x.clone().exp_().clamp(min=0.5), True),
    ],
)
def test_the_first_of_equal_numbers_is_due_only_where_nothing_may_round(numbers, is_open):
    def best(x, y):
        return numbers(x).argmax(dim=1, keepdim=True)

    def last(x, y):
        return numbers(x).shape[1] - 1 - numbers(x).flip(1).argmax(dim=1, keepdim=True)

    single, _ = found(best, last, "integers01", result="int64", shape=("R", 1))
    assert (single is None) == is_open


def test_what_follows_from_a_tie_of_rounded_numbers_may_be_that_of_any():
    """As vectors of a codebook are chosen: distances of small integers are exact, and many of them tie."""

    def nearest(x, y, flip=False):
        codes = y.flip(0) if flip else y
        distances = (codes * codes).sum(1) - 2 * x @ codes.mT
        return codes[distances.argmin(1)]

    single, _ = found(nearest, lambda x, y: nearest(x, y, flip=True), "integers01", result="float32", second=("C", "C"))
    assert single is None


@pytest.mark.parametrize("seed", [23, 25, 43])
def test_of_sums_that_tie_the_first_ones_are_right_however_many_there_are(seed: int) -> None:
    """As a beam search goes on: of 15,000 equal sums the first ones are taken, and places in rows come of them."""

    def beam(x, y, **_):
        return (x + y[..., None]).flatten(1).topk(5, -1).indices % x.shape[2]

    shape = Workload("16x5x3000", {"M": 16, "N": 5, "K": 3000})
    task = Task(
        name="beam",
        reference=beam,
        signature=Signature(
            (Tensor("x", ("M", "N", "K")), Tensor("y", ("M", "N"))), (), (Tensor("z", ("M", 5), "int64", Role.OUTPUT),)
        ),
        workloads={"cpu": WorkloadSet(search=(shape,), holdout=(shape,), probe={"K": (3, 9)})},
        flops="M * N * K",
    )
    inputs = draw(task, shape, "integers01", np.random.default_rng(seed))
    expected = expect(task, shape, inputs, distribution="integers01")
    sums = (inputs["x"] + inputs["y"][..., None]).flatten(1)
    first = torch.argsort(sums, dim=-1, descending=True, stable=True)[:, :5] % 3000
    assert judge_output(expected, [first]) is None
    assert judge_output(expected, [torch.argsort(sums, dim=-1, stable=True)[:, :5] % 3000]) is not None


def test_ranks_of_numbers_that_tie_may_be_in_any_order_but_are_all_different() -> None:
    """In no run of some dozens is each of hundreds of equal numbers the last one, or the first."""

    def ranks(x, y):
        return x.argsort(dim=1).argsort(dim=1)

    def in_another_order(x, y):
        return ranks(x + 0.5 * torch.rand(x.shape, generator=torch.Generator().manual_seed(0)), y)

    def smaller_ones(x, y):
        return torch.searchsorted(x.sort(dim=1).values, x)

    assert found(ranks, in_another_order, "integers01", result="int64")[0] is None
    assert found(ranks, smaller_ones, "integers01", result="int64")[0] is not None
    assert (
        found(lambda x, y: ranks(x / (y.abs() + 1), y), in_another_order, "integers01", result="int64")[0] is not None
    )


def ranking(numbers: list[list[float]], places: int) -> Ranking:
    values = torch.tensor(numbers, dtype=torch.float64)
    return Ranking(values, 0.1 * torch.ones_like(values), 1, (len(numbers), places))


def allowed(found: Ranking, actual: list[list[int]], due: list[list[int]]) -> list[bool]:
    given, expected = (torch.tensor(each) for each in (actual, due))
    return [bool(fine) for fine in found.allows(given, expected).all(dim=1)]


def test_a_position_may_be_that_of_a_number_that_ties() -> None:
    found = ranking([[3.0, 1.0, 2.9, 2.8]] * 7, places=2)
    actual = [[0, 2], [2, 0], [2, 3], [0, 3], [0, 0], [0, 4], [-1, 2]]
    right = [True, True, True, True, False, False, False]
    assert allowed(found, actual, [[0, 2]] * 7) == right, "not out of range, and none twice"
    assert allowed(ranking([[3.0, 1.0, 2.9, 2.6]], 2), [[0, 3]], [[0, 2]]) == [True], "twice the moves of both"
    assert allowed(ranking([[3.0, 1.0, 2.9, 2.4]], 2), [[0, 3]], [[0, 2]]) == [False]
    assert allowed(ranking([[float("nan"), 1.0, 2.9]], 1), [[0]], [[2]]) == [False]


@pytest.mark.parametrize(
    "ranks",
    [
        lambda x, y: torch.argmax(x / y, 1, keepdim=True).to(torch.int32),
        lambda x, y: torch.max(x / y, 1, keepdim=True).indices.to(torch.int32),
        lambda x, y: torch.sort(x / y, 1).indices[:, :1].to(torch.int32).contiguous(),
        lambda x, y: torch.argsort(x / y, 1, descending=True).to(torch.int32),
        lambda x, y: torch.argmin(x / y).reshape(1, 1).to(torch.int32),
    ],
)
def test_the_numbers_that_an_output_ranks_are_found(ranks):
    x, y = torch.randn(2, 30, 40, generator=torch.Generator().manual_seed(0))
    shape = tuple(ranks(x, y).shape)
    task = Task(
        name="t",
        reference=lambda x, y, **_: ranks(x, y),
        signature=Signature(
            (Tensor("x", ("R", "C")), Tensor("y", ("R", "C"))), (), (Tensor("z", shape, "int32", Role.OUTPUT),)
        ),
        workloads={"cpu": WorkloadSet(search=(SMALL,), holdout=(SMALL,), probe={"R": (1, 9), "C": (1, 9)})},
        flops="R * C",
    )
    (output,) = expect(task, SMALL, {"x": x, "y": y}, distribution="normal").outputs
    partly = "sort" in repr(ranks.__code__.co_names) and shape[1] == 1
    assert (output.ranking is None) == partly, "a part of a ranking is none"
    if output.ranking is not None:
        assert output.ranking.allows(output.high, output.high).all()
        assert torch.allclose(output.ranking.numbers.reshape(30, 40), (x / y).double(), rtol=1e-4)


def one_by_one(x, y):
    """Return a product whose terms are added up one by one, in the precision of its factors."""
    product = torch.zeros(x.shape[0], y.shape[1], dtype=x.dtype)
    for k in range(y.shape[0]):
        product += x[:, k, None] * y[k]
    return product


@pytest.mark.parametrize(
    ("decide", "result"),
    [
        pytest.param(lambda product: product > 0, "bool", id="sign"),
        pytest.param(lambda product: (100 * product).round().int(), "int32", id="levels"),
        pytest.param(lambda product: (product > 0).cumsum(1), "int64", id="counts"),
    ],
)
@pytest.mark.parametrize("distribution", ["normal", "wide"])
def test_a_sum_that_cancels_may_fall_either_way_by_the_size_of_its_terms(decide, result, distribution):
    def judged(kernel):
        def reference(x, y):
            return decide(x @ y)

        return found(reference, kernel, distribution, result=result, second=("C", "R"), shape=("R", "R"))

    assert judged(lambda x, y: decide(one_by_one(x, y))) == (None, None)
    assert judged(lambda x, y: decide(one_by_one(x.bfloat16().float(), y.bfloat16().float())))[0] is not None


@pytest.mark.parametrize(
    "total",
    [
        lambda x: x.sum(1),
        lambda x: x @ torch.ones(3, dtype=x.dtype),
        lambda x: torch.addmm(torch.zeros(len(x), dtype=x.dtype)[:, None], x, x.new_full((3, 1), -1), alpha=-1)[:, 0],
        lambda x: torch.zeros(len(x), dtype=x.dtype).index_add_(
            0, torch.arange(len(x)).repeat_interleave(3), x.view(-1)
        ),
        lambda x: torch.zeros_like(x).scatter_add_(1, torch.zeros(x.shape, dtype=torch.int64), x)[:, 0],
    ],
)
def test_what_cancels_to_few_bits_is_exact_in_no_order_but_small_numbers_are(total):
    x = torch.tensor([[1e8, -1e8, 1.0], *[[3.0, -3.0, 1.0]] * 63])
    due = torch.ones(64, dtype=torch.bool)
    small = Workload("w", {"R": 64, "C": 3})
    task = Task(
        name="t",
        reference=lambda x, **_: total(x) > 0,
        signature=Signature((Tensor("x", ("R", "C")),), (), (Tensor("z", ("R",), "bool", Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=(small,), holdout=(small,), probe={"R": (1, 9)})},
        flops="R * C",
    )
    expected = expect(task, small, {"x": x}, distribution="normal")
    other_order = due.index_fill(0, torch.tensor([0]), False)
    assert [judge_output(expected, [each]) for each in (due, other_order)] == [None, None]
    assert judge_output(expected, [due.index_fill(0, torch.arange(1, 4), False)]) is not None


def decided_product(decide, *, rows, terms, dtype):
    """Return what is due of a decision on a product of `rows` by `rows` sums of `terms`, and an honest product."""
    shape = Workload("w", {"R": rows, "C": terms})
    task = Task(
        name="t",
        reference=lambda x, y, **_: decide(x @ y),
        signature=Signature(
            (Tensor("x", ("R", "C")), Tensor("y", ("C", "R"))), (), (Tensor("z", ("R", "R"), dtype, Role.OUTPUT),)
        ),
        workloads={"cpu": WorkloadSet(search=(shape,), holdout=(shape,), probe={"R": (1, 9), "C": (1, 9)})},
        flops="R * C",
        precision=Precision(reduction="C"),
    )
    inputs = draw(task, shape, "normal", np.random.default_rng(0))
    return expect(task, shape, inputs, distribution="normal"), one_by_one(inputs["x"], inputs["y"])


@pytest.mark.parametrize(
    "decide", [lambda product: product > 0, lambda product: torch.where(product > 0, product + 9, 0)]
)
def test_one_element_far_from_an_edge_is_wrong_however_many_edges_there_are(decide):
    dtype = "bool" if decide(torch.ones(1)).dtype == torch.bool else "float32"
    expected, product = decided_product(decide, rows=1000, terms=256, dtype=dtype)
    assert judge_output(expected, [decide(product)]) is None
    product[-1, -1] *= -1
    assert judge_output(expected, [decide(product)]) is not None


def test_one_level_in_the_middle_of_its_quotient_is_wrong():
    def levels(product):
        return torch.div(product, 0.25, rounding_mode="floor").int()

    expected, product = decided_product(levels, rows=200, terms=64, dtype="int32")
    made = levels(product)
    assert judge_output(expected, [made]) is None
    beside = (product / 0.25 % 1 - 0.5).abs().argmin()
    made.view(-1)[beside] += 1
    assert judge_output(expected, [made]) is not None


TENTHS = torch.full((2, 3), 0.1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("reference", "moves"),
    [
        (lambda x, **_: x.mT.contiguous(), False),
        (lambda x, **_: TENTHS.to(x.dtype).mT.contiguous(), True),  # of another's numbers none are known to be held
        (lambda x, **_: torch.view_as_real(torch.complex(x, x) * 0.1)[..., 0].mT.contiguous(), True),
        (lambda x, **_: (x / 3).mT.contiguous(), True),
    ],
)
def test_numbers_that_are_only_looked_at_move_where_they_would_otherwise(reference, moves):
    task = Task(
        name="t",
        reference=reference,
        signature=Signature((Tensor("x", (2, 3)),), (), (Tensor("z", (3, 2), role=Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=(Workload("w", {}),), holdout=(Workload("w", {}),), probe={})},
        flops="1",
    )
    x = torch.tensor([[1.0, 2.0, float("inf")], [4.0, 5.0, 6.0]])
    due = reference(x.double())
    runs = [run.answer[0] for run in edge_answers(task, Workload("w", {}), {"x": x}, unit=2.0**-20)]
    assert bool(runs) == moves
    for each in runs:
        assert ((each != due) & due.isfinite()).any()
        assert torch.allclose(each, due, rtol=2.0**-18, equal_nan=True)
        assert torch.equal(each[due.isfinite()].float().double(), each[due.isfinite()])

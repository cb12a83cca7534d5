"""Work that no right kernel can do without: what a task counts is more than that where much of it is not needed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.floor_work import Work, needed_work
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

F = torch.nn.functional
SIZES = {"M": 64, "N": 96, "K": 128}
PRODUCT = 2 * 64 * 96 * 128


def made(reference, inputs, output, **extra):
    """Return a task over sizes M, N and K whose tensors are given as names with sizes."""
    shape = Workload("one", SIZES)
    return Task(
        name="made",
        reference=reference,
        signature=Signature(
            inputs=tuple(each if isinstance(each, Tensor) else Tensor(*each) for each in inputs),
            scalars=tuple(Scalar(size) for size in SIZES),
            outputs=() if output is None else (Tensor("out", output, role=Role.OUTPUT),),
        ),
        workloads={"cpu": WorkloadSet(search=(shape,), holdout=(shape,), probe={})},
        flops="10 * M * N * K",
        **extra,
    )


def needed(task, *, trusted=False):
    shape = task.workloads["cpu"].search[0]
    return needed_work(task, shape, np.random.default_rng(0), device="cpu", trusted=trusted)


X, W, V = ("x", ("M", "K")), ("w", ("K", "N")), ("v", ("N", "K"))
PRODUCTS = {
    "a product": (lambda x, w, **_: x @ w, (X, W), ("M", "N"), PRODUCT),
    "with bias and relu": (
        lambda x, w, b, **_: torch.relu(torch.addmm(b, x, w)).mT.contiguous(),
        (X, W, ("b", ("N",))),
        ("N", "M"),
        PRODUCT,
    ),
    "of scaled inputs": (lambda x, w, **_: (x * 2).tanh() @ w + 1, (X, W), ("M", "N"), PRODUCT),
    "summed": (lambda x, w, **_: (x @ w).sum(1), (X, W), ("M",), 0),
    "cut": (lambda x, w, **_: (x @ w)[:, 0].clone(), (X, W), ("M",), 0),
    "of three": (lambda x, w, v, **_: x @ w @ v, (X, W, V), ("M", "K"), 0),
    "of one input": (lambda x, **_: x @ x.mT, (X,), ("M", "M"), 0),
    "of equal rows": (lambda x, w, **_: x[:1].expand(64, 128).contiguous() @ w, (X, W), ("M", "N"), 0),
    "of a sum of two": (lambda x, w, **_: (x[:, :1] + x[:1, :]) @ w, (X, W), ("M", "N"), 0),
    "of a triangle": (lambda x, w, **_: x.tril() @ w, (X, W), ("M", "N"), 0),
    "half of it": (
        lambda x, w, **_: torch.where(torch.arange(96) > torch.arange(64)[:, None], x @ w, 0.0),
        (X, W),
        ("M", "N"),
        0,
    ),
    "times a triangle": (lambda x, w, **_: (x @ w) * torch.ones(64, 96, dtype=x.dtype).tril(), (X, W), ("M", "N"), 0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_only_products_count_whose_numbers_all_are_results(name):
    reference, inputs, output, flops = PRODUCTS[name]
    assert needed(made(reference, inputs, output)).flops == flops


def test_the_same_product_counts_once():
    task = made(lambda x, w, **_: (x @ w, (x @ w).relu()), (X, W), ("M", "N"))
    both = tuple(Tensor(name, ("M", "N"), role=Role.OUTPUT) for name in ("out", "more"))
    assert needed(replace(task, signature=replace(task.signature, outputs=both))).flops == PRODUCT


def test_a_builtin_task_says_what_is_least():
    task = made(lambda x, w, **_: (x @ w).sum(1), (X, W), ("M",))
    assert needed(task, trusted=True).flops == Work.counted(task, task.workloads["cpu"].search[0]).flops


def test_a_reference_that_looks_at_numbers_has_no_least_arithmetic():
    assert needed(made(lambda x, w, **_: x @ w if x.sum() > 0 else x @ -w, (X, W), ("M", "N"))).flops == 0


def test_types_on_the_way_are_told():
    short = made(lambda x, w, **_: (x.bfloat16() @ w.bfloat16()).to(x.dtype), (X, W), ("M", "N"))
    assert needed(short).dtypes == ("bfloat16",)
    assert needed(short).flops == PRODUCT
    stored = Tensor("q", ("K", "N"), "int8")
    assert needed(made(lambda x, q, **_: x @ q.to(x.dtype), (X, stored), ("M", "N"))).dtypes == ("int8",)
    levels = made(lambda x, **_: x.clamp(-9, 9).round().to(torch.int8).to(x.dtype), (X,), ("M", "K"))
    assert needed(levels).dtypes == ("int8",)
    assert needed(made(lambda x, **_: (x > 0).to(x.dtype), (X,), ("M", "K"))).dtypes == ()


X_BYTES, ROWS = 4 * 64 * 128, Tensor("i", ("M",), "int64", below="K * N")


@pytest.mark.parametrize(
    ("reference", "inputs", "output", "low", "high"),
    [
        (lambda x, **_: x * 2, (X,), ("M", "K"), 2 * X_BYTES, 2 * X_BYTES),
        (lambda x, **_: x.amax(1), (X,), ("M",), X_BYTES + 4 * 64, X_BYTES + 4 * 64),
        (lambda x, **_: x.clamp(0, 1), (X,), ("M", "K"), 2 * X_BYTES, 2 * X_BYTES),
        (lambda x, **_: (x > 0).to(x.dtype), (X,), ("M", "K"), 2 * X_BYTES, 2 * X_BYTES),
        (lambda x, **_: x[:, :4].sum(1), (X,), ("M",), 4 * 64, 4 * 64 + X_BYTES // 4),
        (lambda x, **_: x[::2].sum(1).repeat(2), (X,), ("M",), 4 * 64, 4 * 64 + 3 * X_BYTES // 4),
        (lambda t, i, **_: t[i], (("t", ("K * N", "M")), ROWS), ("M", "M"), 4 * 64 * 64, 4 * 64 * 64 + 8 * 64),
    ],
    ids=["all", "a maximum", "cut off", "compared", "few columns", "every second row", "rows of a table"],
)
def test_only_what_a_result_depends_on_must_be_read(reference, inputs, output, low, high):
    assert low <= needed(made(reference, inputs, output)).bytes <= high


def test_of_what_is_changed_in_place_only_the_change_is_written():
    def put(cache, x, **_):
        cache[3] = x
        return cache

    cache = Tensor("cache", ("M", "K"), role=Role.INOUT)
    found = needed(made(put, (cache, ("x", ("K",))), None))
    assert 4 * 128 <= found.bytes <= 3 * 4 * 128


def test_traffic_that_an_author_names_counts():
    task = made(lambda x, **_: x[:, :4].sum(1), (X,), ("M",), bytes_moved="7 * M")
    assert needed(task).bytes == 7 * 64

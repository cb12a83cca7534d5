"""What kernels are checked on: five distributions in every dtype."""

import time

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import torch_dtype, widen
from evokernel.evaluate.numerics.inputs import draw
from evokernel.task import DISTRIBUTIONS, DTYPES, Role, Signature, Task, Tensor, Workload, WorkloadSet


def make(*inputs):
    workload = Workload("w", {"R": 40, "C": 500, "eps": 1e-5})
    return Task(
        name="t",
        reference=lambda **_: None,
        signature=Signature(inputs=inputs, scalars=(), outputs=(Tensor("y", ("R",), role=Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=(workload,), holdout=(workload,), probe={"R": (1, 40), "C": (3, 500)})},
        flops="R",
    )


def drawn(dtype, distribution, shape=("R", "C"), seed=0):
    task = make(Tensor("x", shape, dtype))
    return draw(task, task.workloads["cpu"].search[0], distribution, np.random.default_rng(seed))["x"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_every_distribution(dtype, distribution):
    stored = drawn(dtype, distribution)
    assert stored.shape == (40, 500)
    assert stored.dtype == torch_dtype(dtype)
    assert stored.is_contiguous()
    values = widen(stored)
    assert values.isfinite().all()
    assert values.unique().numel() > 1
    assert not torch.equal(stored, drawn(dtype, distribution, seed=1))
    assert torch.equal(stored, drawn(dtype, distribution))


def test_distributions_are_what_they_are_called():
    assert abs(drawn("float32", "normal").std() - 1) < 0.05
    assert abs(drawn("float32", "offset").mean() - 100) < 0.1
    wide = drawn("float32", "wide")
    assert wide.abs().min() < 2e-4
    assert wide.abs().max() > 5e3
    assert abs((wide > 0).float().mean() - 0.5) < 0.02
    assert set(drawn("float64", "integers01").unique().tolist()) == {0.0, 1.0}
    needles = drawn("float32", "needles")
    assert 40 <= needles.count_nonzero() <= 40 + 20000 // 256
    assert (needles != 0).any(dim=1).all()
    assert needles[needles != 0].abs().min() >= 10
    with pytest.raises(TaskError, match="unknown distribution"):
        drawn("float32", "cauchy")


def test_float64_is_drawn_in_full_precision():
    normal = drawn("float64", "normal")
    assert not torch.equal(normal, normal.float().double())


def test_needles_reach_every_column():
    hit = torch.zeros(500, dtype=torch.bool)
    for seed in range(60):
        hit |= (drawn("float32", "needles", seed=seed) != 0).any(dim=0)
    assert hit.float().mean() > 0.98


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_integers_beside_floats_are_indices_in_range(distribution):
    task = make(Tensor("x", ("R", "C")), Tensor("label", ("R",), "int64"), Tensor("i", (3000,), "int32"))
    workload = Workload("w", {"R": 40, "C": 500})
    inputs = draw(task, workload, distribution, np.random.default_rng(0))
    assert inputs["label"].min() >= 0
    assert inputs["label"].max() < 500
    assert 0 <= inputs["i"].min() <= inputs["i"].max() < 40
    if distribution != "integers01":
        assert inputs["label"].max() == 499


def test_shapes_without_elements_are_refused():
    task = make(Tensor("x", ("R - 40",)))
    with pytest.raises(TaskError, match="narrow the ranges"):
        draw(task, task.workloads["cpu"].search[0], "normal", np.random.default_rng(0))


def test_drawing_is_quick():
    task = make(Tensor("x", (1 << 22,), "bfloat16"))
    start = time.perf_counter()
    draw(task, task.workloads["cpu"].search[0], "normal", np.random.default_rng(0))
    assert time.perf_counter() - start < 1


def bounded(distribution, bound, dtype="int32", seed=0):
    task = make(Tensor("x", ("R", "C")), Tensor("i", ("R", "C"), dtype, below=bound))
    return draw(task, task.workloads["cpu"].search[0], distribution, np.random.default_rng(seed))["i"]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_integers_stay_below_what_they_say(distribution, dtype):
    """Whatever the extents of the other tensors: here they are 40 and 500."""
    for bound in (1, 2, 37, 100_000):
        values = bounded(distribution, bound, dtype)
        assert values.dtype == torch_dtype(dtype)
        assert values.min() >= 0
        assert values.max() == (min(bound, 2) if distribution == "integers01" else bound) - 1
    assert bounded(distribution, "R").max() == (1 if distribution == "integers01" else 39)


def test_bounded_integers_are_uniform_skewed_or_nearly_all_alike():
    shares = bounded("normal", 4).flatten().bincount() / 20000
    assert (shares - 0.25).abs().max() < 0.02
    wide = bounded("wide", 1023).flatten()
    for power in range(10):  # 0; 1, 2; 3 to 6; and so on: each as often as the next
        share = ((wide >= 2**power - 1) & (wide < 2 ** (power + 1) - 1)).float().mean()
        assert abs(share - 0.1) < 0.02
    assert 0 < (bounded("needles", 1000) != 0).float().mean() < 0.01
    assert not torch.equal(bounded("normal", 1000), bounded("normal", 1000, seed=1))


def test_a_bound_that_makes_no_sense_is_refused():
    with pytest.raises(TaskError, match="at least 1"):
        bounded("normal", "R - 40")
    with pytest.raises(TaskError, match="names 'Q'"):
        bounded("normal", "Q")
    with pytest.raises(TaskError, match="inputs of integers"):
        Tensor("x", ("R",), below="R")
    with pytest.raises(TaskError, match="inputs of integers"):
        Tensor("y", ("R",), "int32", Role.OUTPUT, below="R")

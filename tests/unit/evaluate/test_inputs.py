"""What kernels are checked on: five distributions in every dtype."""

import time

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.arrays import torch_dtype, widen
from evokernel.evaluate.inputs import draw
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

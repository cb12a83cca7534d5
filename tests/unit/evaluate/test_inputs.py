"""What kernels are fed: distributions, hidden shapes, and content that never repeats."""

import time

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.inputs import FreshInputs, draw, numpy_dtype, probe_workloads, store, widen
from evokernel.task import DISTRIBUTIONS, DTYPES, Role, Signature, Task, Tensor, Workload, WorkloadSet


def make(*inputs, distribution="normal", probe=None, probes=4):
    workload = Workload("w", {"R": 40, "C": 500, "eps": 1e-5}, distribution=distribution)
    return Task(
        name="t",
        reference=lambda **_: None,
        signature=Signature(inputs=inputs, scalars=(), outputs=(Tensor("y", ("R",), role=Role.OUTPUT),)),
        workloads={
            "cpu": WorkloadSet(
                search=(workload,), holdout=(workload,), probe=probe or {"R": (1, 40), "C": (3, 500)}, probes=probes
            )
        },
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
    assert stored.dtype == numpy_dtype(dtype)
    values = widen(stored, dtype)
    assert np.isfinite(values).all()
    assert np.unique(values).size > 1
    assert not np.array_equal(stored, drawn(dtype, distribution, seed=1))


def test_distributions_are_what_they_are_called():
    assert abs(drawn("float32", "normal").std() - 1) < 0.05
    assert abs(drawn("float32", "offset").mean() - 100) < 0.1
    wide = np.abs(drawn("float32", "wide"))
    assert wide.min() < 2e-4
    assert wide.max() > 5e3
    assert set(np.unique(drawn("float64", "integers01"))) == {0.0, 1.0}
    needles = drawn("float32", "needles")
    assert 40 <= np.count_nonzero(needles) <= 40 + 20000 // 256
    assert (needles != 0).any(axis=1).all()
    assert np.abs(needles[needles != 0]).min() >= 10
    with pytest.raises(TaskError, match="unknown distribution"):
        drawn("float32", "cauchy")


def test_needles_reach_every_column():
    hit = np.zeros(500, dtype=bool)
    for seed in range(60):
        hit |= (drawn("float32", "needles", seed=seed) != 0).any(axis=0)
    assert hit.mean() > 0.98


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_integers_beside_floats_are_indices_in_range(distribution):
    task = make(Tensor("x", ("R", "C")), Tensor("label", ("R",), "int64"), Tensor("i", (3000,), "int32"))
    workload = Workload("w", {"R": 40, "C": 500})
    inputs = draw(task, workload, distribution, np.random.default_rng(0))
    assert inputs["label"].min() >= 0
    assert inputs["label"].max() < 500
    assert 0 <= inputs["i"].min() <= inputs["i"].max() < 40


def test_bfloat16_rounds_to_nearest_even_as_torch_does():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(5000), [0.0, -0.0, np.inf, -np.inf, 1e-40, 3.4e38]]).astype(np.float32)
    expected = torch.from_numpy(values).to(torch.bfloat16)
    assert np.array_equal(store(values, "bfloat16"), expected.view(torch.int16).numpy().view(np.uint16))
    assert np.array_equal(widen(store(values, "bfloat16"), "bfloat16"), expected.double().numpy())
    assert np.isnan(widen(store(np.array([np.nan]), "bfloat16"), "bfloat16")).all()


def test_shapes_without_elements_are_refused():
    task = make(Tensor("x", ("R - 40",)))
    with pytest.raises(TaskError, match="narrow the ranges"):
        draw(task, task.workloads["cpu"].search[0], "normal", np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(30))
def test_probes_stay_in_range_with_a_least_and_an_odd_one(seed):
    workloads = make(Tensor("x", ("R", "C")), probes=6).workloads["cpu"]
    least, odd, *others = probe_workloads(workloads, np.random.default_rng(seed))
    assert len(others) == 4
    assert least.sizes == {"R": 1, "C": 3}
    assert all(value % 2 for value in odd.sizes.values())
    assert odd.sizes["C"] > 200
    for workload in (least, odd, *others):
        assert 1 <= workload.dims["R"] <= 40
        assert 3 <= workload.dims["C"] <= 500
        assert workload.dims["eps"] == 1e-5


def test_probes_mix_primes_neighbours_of_powers_and_ends():
    workloads = make(Tensor("x", ("R", "C")), probe={"R": (1, 200)}, probes=400).workloads["cpu"]
    seen = [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))][2:]
    assert {1, 200, 31, 127, 97} <= set(seen)
    assert len(set(seen)) > 50


def test_a_range_of_one_even_number_is_used_as_it_is():
    workloads = make(Tensor("x", ("R", "C")), probe={"R": (8, 8)}, probes=1).workloads["cpu"]
    assert [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))] == [8, 8]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fresh_content_never_repeats(dtype):
    task = make(Tensor("x", ("R", "C"), dtype))
    workload = task.workloads["cpu"].search[0]
    fresh = FreshInputs(task, workload, np.random.default_rng(0))
    view, seen = np.empty((40, 500), numpy_dtype(dtype)), set()
    for _ in range(300):
        fresh.fill({"x": view})
        seen.add(view.tobytes())
    assert len(seen) == 300


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fresh_content_follows_the_distribution(distribution):
    task = make(Tensor("x", ("R", "C")), distribution=distribution)
    workload = task.workloads["cpu"].search[0]
    view = np.empty((40, 500), np.float32)
    FreshInputs(task, workload, np.random.default_rng(0)).fill({"x": view})
    like = draw(task, workload, distribution, np.random.default_rng(0))["x"]
    assert abs(np.sort(view.reshape(-1))[10000] - np.sort(like.reshape(-1))[10000]) <= 15
    if distribution == "integers01":
        assert set(np.unique(view)) == {0.0, 1.0}
    assert abs(np.count_nonzero(view) - np.count_nonzero(like)) < 500


def test_a_used_up_pool_is_drawn_anew():
    task = make(Tensor("x", (2,), "float64"))
    fresh = FreshInputs(task, task.workloads["cpu"].search[0], np.random.default_rng(0))
    view, seen = np.empty(2), set()
    for _ in range(40000):
        fresh.fill({"x": view})
        seen.add(view.tobytes())
    assert len(seen) == 40000


def test_views_must_be_contiguous():
    task = make(Tensor("x", ("R", "C")))
    fresh = FreshInputs(task, task.workloads["cpu"].search[0], np.random.default_rng(0))
    with pytest.raises(ValueError, match="contiguous"):
        fresh.fill({"x": np.empty((500, 40), np.float32).T})


def test_filling_costs_about_a_copy():
    task = make(Tensor("x", (1 << 20,)))
    fresh = FreshInputs(task, task.workloads["cpu"].search[0], np.random.default_rng(0))
    view, source = np.empty(1 << 20, np.float32), np.ones(1 << 20, np.float32)

    def best(action):
        times = []
        for _ in range(15):
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(lambda: fresh.fill({"x": view})) < 5 * best(lambda: np.copyto(view, source)) + 2e-4

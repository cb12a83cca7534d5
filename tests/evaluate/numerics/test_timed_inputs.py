"""Content for timed calls never repeats, unless the same is asked for again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.arrays import identical, raw_bytes, torch_dtype
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.timed_inputs import Content, FreshInputs, _write, _write_rows
from evokernel.task import DISTRIBUTIONS, DTYPES, Role, Signature, Task, Tensor, Workload, WorkloadSet


def make(*inputs, distribution="normal"):
    workload = Workload("w", {"R": 40, "C": 500}, distribution=distribution)
    return Task(
        name="t",
        reference=lambda **_: None,
        signature=Signature(inputs=inputs, scalars=(), outputs=(Tensor("y", ("R",), role=Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=(workload,), holdout=(workload,), probe={"R": (1, 40), "C": (3, 500)})},
        flops="R",
    )


def fresh_for(task):
    return FreshInputs(task, task.workloads["cpu"].search[0], np.random.default_rng(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_fresh_content_never_repeats(dtype):
    fresh = fresh_for(make(Tensor("x", ("R", "C"), dtype)))
    view, seen = torch.empty(40, 500, dtype=torch_dtype(dtype)), set()
    for window in fresh.draw_windows(300):
        fresh.fill({"x": view}, window)
        seen.add(raw_bytes(view))
    assert len(seen) == 300


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_window_gives_the_same_bits(dtype):
    fresh = fresh_for(make(Tensor("x", ("R", "C"), dtype), Tensor("i", (7,), "int32", Role.INOUT)))
    first = {"x": torch.empty(40, 500, dtype=torch_dtype(dtype)), "i": torch.empty(7, dtype=torch.int32)}
    again = {name: torch.zeros_like(view) for name, view in first.items()}
    windows = fresh.draw_windows(3)
    fresh.fill(first, windows[1])
    for window in (*windows, windows[1]):
        fresh.fill(again, window)
    assert all(identical(first[name], again[name]) for name in first)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fresh_content_follows_the_distribution(distribution):
    task = make(Tensor("x", ("R", "C")), distribution=distribution)
    view = torch.empty(40, 500)
    fresh = fresh_for(task)
    fresh.fill({"x": view}, *fresh.draw_windows(1))
    like = draw(task, task.workloads["cpu"].search[0], distribution, np.random.default_rng(0))["x"]
    assert abs(view.reshape(-1).sort()[0][10000] - like.reshape(-1).sort()[0][10000]) <= 15
    if distribution == "integers01":
        assert set(view.unique().tolist()) == {0.0, 1.0}
    assert abs(view.count_nonzero() - like.count_nonzero()) < 500


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_content_is_nothing_that_running_sums_over_another_one_give(dtype):
    fresh = fresh_for(make(Tensor("x", ("R", "C"), dtype), distribution="wide"))
    (first, *others) = (each["x"] for each in fresh.draw_windows(50))
    second = min(others, key=lambda each: abs(each.start - first.start))
    shift = second.start - first.start
    view = {"x": torch.empty(40, 500, dtype=torch_dtype(dtype))}
    flat = []
    for content in (first, second):
        fresh.fill(view, {"x": content})
        flat.append(view["x"].reshape(-1).double().clone())
    assert abs(shift) < 19000
    mine, theirs = flat[0][max(shift, 0) : 20000 + min(shift, 0)], flat[1][max(-shift, 0) : 20000 - max(shift, 0)]
    assert (theirs / mine).nan_to_num(1.0).std() > 0.01


def test_a_used_up_pool_is_drawn_anew_and_old_windows_stay_good():
    fresh = fresh_for(make(Tensor("x", (2,), "float64")))
    view, seen = torch.empty(2, dtype=torch.float64), set()
    (first,) = fresh.draw_windows(1)
    fresh.fill({"x": view}, first)
    before = view.tolist()
    for window in fresh.draw_windows(40000):
        fresh.fill({"x": view}, window)
        seen.add(tuple(view.tolist()))
    assert len(seen) == 40000
    fresh.fill({"x": view}, first)
    assert view.tolist() == before


def test_views_must_be_contiguous():
    fresh = fresh_for(make(Tensor("x", ("R", "C"))))
    (window,) = fresh.draw_windows(1)
    with pytest.raises(ValueError, match="contiguous"):
        fresh.fill({"x": torch.empty(500, 40).T}, window)


def test_rows_of_which_only_some_are_scaled_are_written_as_one_by_one():
    source = torch.arange(24, dtype=torch.float32)
    plain, scaled = Content(source, 0, 24), replace(Content(source, 0, 24), factor=1.5)
    for contents in ([plain, scaled], [scaled, plain], [plain, plain], [scaled, scaled]):
        once, together = torch.empty(2, 24), torch.empty(2, 24)
        for row, content in zip(once, contents, strict=True):
            _write(row, content)
        _write_rows(list(together.unbind()), contents)
        assert identical(once, together)

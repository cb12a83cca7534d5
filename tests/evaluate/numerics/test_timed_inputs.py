"""Content for timed calls never repeats, unless the same is asked for again."""

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.arrays import identical, raw_bytes, torch_dtype
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.timed_inputs import (
    Content,
    FreshInputs,
    _Counter,
    _first_of_one_key,
    _write,
    _write_rows,
)
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
    place = -1 if distribution == "offset" else 10000  # of which half the rows, or four, lie far from zero
    assert abs(view.reshape(-1).sort()[0][place] - like.reshape(-1).sort()[0][place]) <= 15
    if distribution == "integers01":
        assert set(view.unique().tolist()) == {0.0, 1.0}
    assert abs(view.count_nonzero() - like.count_nonzero()) < 500


def similarity(one, other):
    """The largest correlation of two long arrays over all shifts, in standard deviations of unrelated ones."""
    spectra = [torch.fft.rfft(each - each.mean()) for each in (one.double(), other.double())]
    found = torch.fft.irfft(spectra[0].conj() * spectra[1], n=one.numel())
    return float(found.abs().max() / (one.double().std() * other.double().std() * one.numel() ** 0.5))


@pytest.mark.parametrize("distribution", ["normal", "wide", "integers01"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_contents_have_nothing_in_common_whatever_the_shift_between_them(dtype, distribution):
    fresh = fresh_for(make(Tensor("x", ("R", "C"), dtype), distribution=distribution))
    view, found = torch.empty(40, 500, dtype=torch_dtype(dtype)), []
    for window in fresh.draw_windows(10):
        fresh.fill({"x": view}, window)
        found.append(view.double().reshape(-1).sign() * view.double().reshape(-1).abs().log1p())
    worst = max(similarity(found[0], other) for other in found[1:])
    assert worst < 7  # of unrelated ones 4 to 5.5; of windows of one pool 100


@pytest.mark.parametrize("dtype", ["int32", "bfloat16"])
def test_equal_elements_of_one_content_say_nothing_of_those_of_another(dtype):
    fresh = fresh_for(make(Tensor("x", ("64 * R", "C"), dtype, below=50000 if dtype == "int32" else None)))
    found = []
    for window in fresh.draw_windows(4):
        draw = window["x"].draw
        places = (draw.places ^ draw.others).long()
        found.append(torch.unique(places[:-1] * 65536 + places[1:]))  # where two neighbours stand in the table
    pairs = [(found[0], other) for other in found[1:]]
    common = [int(torch.isin(one, other).sum()) for one, other in pairs]
    assert max(common) < 1500  # by chance 380 of 1,280,000; of windows of one list nearly all


def test_used_up_numbers_are_drawn_anew_and_old_windows_stay_good():
    fresh = fresh_for(make(Tensor("x", (2,), "float64")))
    view, seen = torch.empty(2, dtype=torch.float64), set()
    (first,) = fresh.draw_windows(1)
    fresh.fill({"x": view}, first)
    before = view.tolist()
    for window in fresh.draw_windows(70000):
        fresh.fill({"x": view}, window)
        seen.add(tuple(view.tolist()))
    assert len(seen) == 70000
    fresh.fill({"x": view}, first)
    assert view.tolist() == before


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_layout_of_the_tasks_own_gets_the_same_content_and_its_padding_is_left_alone(dtype: str):
    fresh = fresh_for(make(Tensor("x", ("R", "C"), dtype)))
    windows = fresh.draw_windows(2)
    shape, kind = (40, 500), torch_dtype(dtype)
    plain, memory = torch.empty((2, *shape), dtype=kind), torch.full((2, shape[1], shape[0] + 3), 77, dtype=kind)
    views = memory[:, :, : shape[0]].transpose(1, 2)
    fresh.fill_sets({"x": plain}, windows)
    fresh.fill_sets({"x": views}, windows)
    assert torch.equal(views, plain)
    assert (memory[:, :, shape[0] :] == 77).all()


def test_rows_are_written_as_one_by_one():
    fresh = fresh_for(make(Tensor("x", (24,))))
    drawn = [window["x"] for window in fresh.draw_windows(3)]
    plain = Content(torch.arange(24, dtype=torch.float32))
    for contents in ([plain, drawn[0]], [drawn[2], plain, drawn[1]], [plain, plain], drawn):
        once, together = torch.empty(len(contents), 24), torch.empty(len(contents), 24)
        for row, content in zip(once, contents, strict=True):
            _write(row, content)
        _write_rows(together, contents)
        assert identical(once, together)


def test_contents_of_one_key_are_written_at_once_where_they_count_on():
    table = torch.zeros(4)
    plain, counted = Content(table), [Content(table, _Counter(5, number, 0.0)) for number in range(4)]
    assert _first_of_one_key(counted) == counted[0].draw
    assert _first_of_one_key([plain, counted[1], plain, counted[3]]) == counted[0].draw
    assert _first_of_one_key([plain, counted[0]]) is None
    assert _first_of_one_key([counted[0], counted[2]]) is None
    assert _first_of_one_key([plain]) is None

"""What kernels are checked on: every distribution in every dtype."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import torch_dtype, widen
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.patchwork import InputSource, kinds_of
from evokernel.task import (
    DISTRIBUTIONS,
    DTYPES,
    ENDS,
    EXTREME,
    PATCHWORK,
    PATCHWORK_BEATS,
    PATCHWORK_FEW,
    PATCHWORK_KEPT,
    TINY,
    Role,
    Signature,
    Task,
    Tensor,
    Workload,
    WorkloadSet,
)


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


@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, PATCHWORK])
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
    means = torch.stack([drawn("float32", "offset", seed=seed).mean(dim=1) for seed in range(20)])
    assert torch.minimum(means.abs(), (means - 100).abs()).max() < 0.5
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


def test_the_first_row_does_not_tell_whether_others_lie_around_zero():
    rows = torch.stack([drawn("float32", "offset", seed=seed).mean(dim=1) > 50 for seed in range(40)])
    shares = rows.float().mean(dim=1)
    assert 0 < (shares == 1).sum() < 25
    assert shares.min() > 0
    assert (~rows[:, 0]).sum() > 10


def test_a_look_at_each_sixteenth_row_often_finds_none_that_lies_far_from_zero():
    drawn_rows = [
        drawn("float32", "offset", shape=("64 * R", "C"), seed=seed)[::16, 0].max() < 50 for seed in range(40)
    ]
    assert sum(map(bool, drawn_rows)) > 8


@pytest.mark.parametrize(("dtype", "least", "most"), [("int8", -128, 127), ("uint8", 0, 255)])
def test_bytes_take_their_whole_range_beside_floats(dtype, least, most):
    task = make(Tensor("x", ("R", "C")), Tensor("q", ("R", "C"), dtype))
    for distribution in ("normal", "wide", "needles", PATCHWORK):
        rng = np.random.default_rng(0)
        drawn_bytes = [draw(task, task.workloads["cpu"].search[0], distribution, rng)["q"] for _ in range(4)]
        assert (torch.stack(drawn_bytes).min(), torch.stack(drawn_bytes).max()) == (least, most)


def test_masks_are_of_many_densities_and_only_a_patchwork_has_rows_without_a_true_element():
    shares = {each: drawn("bool", each).float().mean(dim=1) for each in (*DISTRIBUTIONS, PATCHWORK_KEPT)}
    assert all((share > 0).all() for share in shares.values())
    assert shares["wide"].max() > 10 * shares["wide"].median()
    assert shares["needles"].max() < 0.05 < 0.8 < shares["offset"].min()
    patched = torch.cat([drawn("bool", PATCHWORK, seed=seed) for seed in range(20)])
    counts, changes = patched.sum(dim=1), patched.int().diff(dim=1).abs().sum(dim=1)
    assert all((counts == count).any() for count in (0, 1, 499, 500))
    assert ((changes <= 2) & (counts > 50) & (counts < 450)).sum() > 20  # runs and prefixes


def test_float64_is_drawn_in_full_precision():
    normal = drawn("float64", "normal")
    assert not torch.equal(normal, normal.float().double())


def test_needles_reach_every_column():
    hit = torch.zeros(500, dtype=torch.bool)
    for seed in range(60):
        hit |= (drawn("float32", "needles", seed=seed) != 0).any(dim=0)
    assert hit.float().mean() > 0.98


@pytest.mark.parametrize(("dtype", "half"), [("int32", 15), ("int64", 31)])
def test_integers_without_a_bound_need_more_than_half_their_bits_somewhere(dtype, half):
    """Products of them are small enough for the type, also of the large one with itself."""
    for seed in range(10):
        values = drawn(dtype, "needles", seed=seed)
        assert (values.abs() >= 1 << half).sum() == 1
        assert values.square().sum() <= torch.iinfo(values.dtype).max
        assert (values.abs() > 1000).sum() == 1
        assert drawn(dtype, "wide", seed=seed).abs().max() <= 1000


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


def test_few_rows_of_bounded_integers_may_all_stay_as_they_are():
    """Of four rows none may be among those that `offset` makes ordinary."""
    task = make(Tensor("x", (4, "C")), Tensor("i", (4, "C"), "int32", below=1000))
    workload, rng = task.workloads["cpu"].search[0], np.random.default_rng(0)
    assert all(int(draw(task, workload, "offset", rng)["i"].max()) == 999 for _ in range(40))


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


def test_floats_are_times_their_scale_and_keep_their_kind():
    task = make(Tensor("x", ("R", "C")), Tensor("w", ("R", "C"), "bfloat16", scale=0.02))
    for distribution in (*DISTRIBUTIONS, PATCHWORK):
        drawn = [draw(each, task.workloads["cpu"].search[0], distribution, np.random.default_rng(0))
                 for each in (task, make(Tensor("x", ("R", "C")), Tensor("w", ("R", "C"), "bfloat16")))]  # fmt: skip
        torch.testing.assert_close(drawn[0]["w"].float(), 0.02 * drawn[1]["w"].float(), rtol=2**-7, atol=0)
        assert torch.equal(drawn[0]["x"], drawn[1]["x"])


@pytest.mark.parametrize(("tensor", "scale"), [("int32", 0.5), ("float32", 0.0), ("float32", float("inf"))])
def test_a_scale_that_makes_no_sense_is_refused(tensor, scale):
    with pytest.raises(TaskError, match="`scale` is a number above 0 for inputs of floats"):
        Tensor("x", ("R",), tensor, scale=scale)


def test_a_bound_that_makes_no_sense_is_refused():
    with pytest.raises(TaskError, match="at most 128 for int8"):
        bounded("normal", "R * 4", "int8")
    with pytest.raises(TaskError, match="inputs of integers"):
        Tensor("x", ("R",), "bool", below=2)
    with pytest.raises(TaskError, match="at least 1"):
        bounded("normal", "R - 40")
    with pytest.raises(TaskError, match="names 'Q'"):
        bounded("normal", "Q")
    with pytest.raises(TaskError, match="inputs of integers"):
        Tensor("x", ("R",), below="R")
    with pytest.raises(TaskError, match="inputs of integers"):
        Tensor("y", ("R",), "int32", Role.OUTPUT, below="R")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_patchwork_has_the_range_of_what_it_is_made_of(dtype):
    narrow = replace(make(Tensor("x", ("R", "C"), dtype)), distributions=("integers01", PATCHWORK))
    for seed in range(5):
        values = draw(narrow, narrow.workloads["cpu"].search[0], PATCHWORK, np.random.default_rng(seed))["x"].double()
        assert set(values.unique().tolist()) == {0, 1}
        away = replace(narrow, distributions=("offset", PATCHWORK))
        values = draw(away, away.workloads["cpu"].search[0], PATCHWORK, np.random.default_rng(seed))["x"].double()
        assert values.min() >= {"bool": 0}.get(dtype, 2 if dtype.startswith(("float16", "float8")) else 90)
    for bound in (1, 2, 37, 100_000):
        indices = bounded(PATCHWORK, bound)
        assert 0 <= indices.min() <= indices.max() < bound


def test_a_patchwork_has_rows_of_many_kinds():
    found = torch.cat([drawn("float32", PATCHWORK, seed=seed) for seed in range(10)]).double()
    spread = found.std(dim=1)
    loudest = found.abs().amax(dim=1) / found.abs().median(dim=1).values
    distinct = torch.tensor([row.unique().numel() for row in found])
    for rare in (
        spread == 0,
        (spread > 0) & (spread < 1e-2),
        distinct == 3,
        (loudest > 20) & (spread > 1),
        distinct > 490,
    ):
        assert 0.01 < rare.double().mean() < 0.7
    starts = [drawn("float32", PATCHWORK, seed=seed)[0, :64] for seed in range(40)]
    assert sum(abs(start.std() - 1) < 0.4 for start in starts) > 15


def test_pieces_of_a_long_row_differ():
    values = drawn("float32", PATCHWORK, shape=("64 * C",)).view(8, -1)
    assert values.std(dim=1).min() < 0.1
    assert values.std(dim=1).max() > 0.4
    task = make(Tensor("i", ("512 * C",), "int32", below=1000))
    counts = draw(task, task.workloads["cpu"].search[0], PATCHWORK, np.random.default_rng(1))["i"].bincount()
    assert counts.max() > 20 * counts.float().mean()


def test_of_many_rows_of_a_patchwork_most_or_few_are_out_of_the_ordinary() -> None:
    shares = []
    for seed in range(64):
        source = InputSource(torch.Generator().manual_seed(seed), torch.float32)
        shares.append(float((kinds_of(10, 4096, source) != 0).double().mean()))
    assert {share > 0.8 for share in shares} == {True, False}
    assert min(shares) < 0.02
    assert all(shares), "none is without any"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_patchwork_of_few_has_single_loud_elements_in_few_rows(dtype: str) -> None:
    for seed in range(8):
        loud = drawn(dtype, PATCHWORK_FEW, shape=("64 * R", "C"), seed=seed).float().abs() > 20
        assert 1 <= int(loud.any(dim=1).sum()) <= 8
        assert int(loud.sum(dim=1).max()) == 1
    shares = drawn("bool", PATCHWORK_FEW, shape=("64 * R", "C")).float().mean(dim=1)
    assert ((shares - 0.5).abs() > 0.2).sum() <= 8


def test_integers_in_beats_are_one_number_and_at_regular_places_another_all_over() -> None:
    task = make(Tensor("x", ("C",)), Tensor("i", ("4096 * R",), "int64", below=70))
    inputs = draw(task, task.workloads["cpu"].search[0], PATCHWORK_BEATS, np.random.default_rng(3))
    assert inputs["x"].unique().numel() > 400, "others are ordinary"
    one = inputs["i"].mode().values
    places = (inputs["i"] != one).nonzero()[:, 0]
    assert inputs["i"].unique().numel() == 2
    assert (places.diff()[: len(places) // 4].eq(8)).all()
    assert places.diff()[-4:].eq(1024).all()


@pytest.mark.parametrize(("distribution", "number"), [(ENDS[0], 0), (ENDS[1], 1)])
@pytest.mark.parametrize("dtype", ["float32", "float8_e4m3fn", "int32", "int8", "uint8", "bool"])
def test_both_ends_of_an_input_may_hold_one_number_alone(dtype: str, distribution: str, number: int) -> None:
    values = widen(drawn(dtype, distribution)).double()
    assert values[0].eq(number).all()
    assert values[-1].eq(number).all()
    assert values[1:-1].unique().numel() > 1
    assert drawn(dtype, distribution, shape=("C",)).double().eq(number).all(), "a single row is both ends"


def test_indices_at_both_ends_are_the_largest_and_kept_masks_stay_as_they_are() -> None:
    task = make(Tensor("x", ("R", "C")), Tensor("i", ("R",), "int64", below=7), Tensor("m", ("R", "C"), "bool"))
    task = replace(task, distributions=("normal", PATCHWORK_KEPT))
    (workload,) = task.workloads["cpu"].search
    found = {each: draw(task, workload, each, np.random.default_rng(0)) for each in ENDS}
    assert [int(found[each]["i"][-1]) for each in found] == [0, 6]
    assert found[ENDS[0]]["m"].any(dim=1).all()
    assert found[ENDS[1]]["m"][-1].all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_some_rows_of_a_patchwork_are_as_far_from_zero_as_any_number_may_be(dtype: str) -> None:
    rows = torch.cat([drawn(dtype, PATCHWORK, seed=seed) for seed in range(8)]).double()
    assert rows.abs().max() <= 1.01e4
    deep = (rows.amax(dim=1) < -1000).sum(), (rows.amin(dim=1) > 1000).sum(), (rows.amax(dim=1) < -150).sum()
    assert all(deep), "far below, far above, and below where roundings stay small"
    assert deep[0] < deep[2]
    assert deep[2] < 40


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_extreme_integers_take_all_bits_of_their_type(dtype: str) -> None:
    ends = torch.iinfo(getattr(torch, dtype))
    drawn_ones = [drawn(dtype, EXTREME, seed=seed) for seed in range(24)]
    alike = [int(rows.unique().numel()) == 1 for rows in drawn_ones]
    assert 0 < sum(alike) < 20
    assert {int(rows[0, 0]) for rows, same in zip(drawn_ones, alike, strict=True) if same} == {ends.min, ends.max}
    every = torch.cat([rows for rows, same in zip(drawn_ones, alike, strict=True) if not same]).double()
    assert (every.amax(dim=1) < ends.min + 0.51 * (ends.max - ends.min)).any()
    assert (every.amin(dim=1) > ends.min + 0.49 * (ends.max - ends.min)).any()


def test_tiny_numbers_are_tiny_everywhere() -> None:
    values = drawn("float32", TINY).abs()
    assert 1e-13 < float(values.median()) < 1e-12
    assert float(values.max()) < 1e-11


def test_some_runs_of_a_patchwork_begin_with_their_row() -> None:
    rows = torch.cat([drawn("float32", PATCHWORK, shape=("64 * R", "C"), seed=seed) for seed in range(8)])
    begins = (rows[:, :4] == rows[:, :1]).all(dim=1) & (rows != rows[:, :1]).any(dim=1) & (rows[:, 0] != 0)
    assert int(begins.sum()) > 8

"""Hidden shapes: in range, odd, and awkward."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evokernel.evaluate.numerics.hidden_shapes import large_workloads, probe_workloads
from evokernel.evaluate.numerics.odd_shapes import (
    compiled_again,
    compiled_workloads,
    fenced_workloads,
    large_tailed_workloads,
    lopsided_workloads,
    searched_tailed_workloads,
    singled_out_workloads,
    tailed_workloads,
    tiled_workloads,
)
from evokernel.evaluate.numerics.size_ranges import within_ranges
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet


def make(probe=None, probes=4):
    workload = Workload("w", {"R": 40, "C": 500, "eps": 1e-5})
    return WorkloadSet(
        search=(workload,), holdout=(workload,), probe=probe or {"R": (1, 40), "C": (3, 500)}, probes=probes
    )


@pytest.mark.parametrize("seed", range(30))
def test_probes_stay_in_range_with_a_least_and_an_odd_one(seed):
    least, odd, *others = probe_workloads(make(probes=6), np.random.default_rng(seed))
    assert len(others) == 4
    assert least.sizes == {"R": 1, "C": 3}
    assert all(value % 2 for value in odd.sizes.values())
    assert odd.sizes["C"] > 200
    assert least.dims["eps"] == 1e-5
    assert all(0.2e-5 < workload.dims["eps"] < 0.8e-5 for workload in (odd, *others))  # a kernel is told it, each time
    for workload in (least, odd, *others):
        assert 1 <= workload.dims["R"] <= 40
        assert 3 <= workload.dims["C"] <= 500


@pytest.mark.parametrize("seed", range(10))
def test_each_dimension_lies_once_right_below_a_power_of_two_and_once_right_above(seed):
    workloads = make(probe={"R": (1, 40), "C": (3, 500), "few": (2, 5)})
    beside = [workload.dims for workload in probe_workloads(workloads, np.random.default_rng(seed))][2:]
    for name in ("R", "C"):
        below, above = sorted(dims[name] % 16 for dims in beside)[::-1]
        assert (below, above) == (15, 1)
    assert all(2 <= dims["few"] <= 5 for dims in beside)


def test_probes_mix_primes_neighbours_of_powers_and_ends():
    workloads = make(probe={"R": (1, 200)}, probes=400)
    seen = [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))][2:]
    assert {1, 200, 31, 127, 97} <= set(seen)
    assert len(set(seen)) > 50


@pytest.mark.parametrize("seed", range(20))
def test_a_shape_beside_those_of_the_search_is_odd_and_a_little_smaller(seed):
    small = make(probe={"R": (1, 8), "C": (3, 60)})
    beside, _ = large_workloads(small, np.random.default_rng(seed))
    assert 35 <= beside.sizes["R"] <= 39
    assert 437 <= beside.sizes["C"] <= 499
    assert beside.sizes["R"] % 2 == beside.sizes["C"] % 2 == 1
    assert beside.dims["eps"] == 1e-5


def test_a_shape_beside_those_of_the_search_keeps_to_ends_that_are_expressions():
    padded = replace(make(probe={"C": (3, 60), "R": ("C", "C + 64")}), search=(Workload("w", {"R": 512, "C": 500}),))
    for seed in range(20):
        for shape in large_workloads(padded, np.random.default_rng(seed)):
            assert shape.sizes["C"] <= shape.sizes["R"] <= shape.sizes["C"] + 64
    assert large_workloads(replace(padded, probe={}), np.random.default_rng(0)) == ()


def test_some_shapes_lie_between_the_others_and_those_of_the_search():
    known = (Workload("w", {"R": 4096, "C": 100}),)
    offered = replace(make(probe={"R": (1, 128), "C": (1, 200)}), search=known, holdout=known)
    shapes = [large_workloads(offered, np.random.default_rng(seed))[1].sizes for seed in range(60)]
    assert {shape["C"] for shape in shapes} == {100}
    assert all(128 <= shape["R"] <= 4096 for shape in shapes)
    assert {shape["R"].bit_length() for shape in shapes} == {8, 9, 10, 11, 12}


def test_a_range_of_one_even_number_is_used_as_it_is():
    workloads = make(probe={"R": (8, 8)}, probes=1)
    assert [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))] == [8, 8]


@pytest.mark.parametrize(
    ("ranges", "multiples"),
    [({"R": (1, 40), "C": (3, 500)}, {"R": 16, "C": 64}), ({"R": (1, 9), "C": (100, 90_000)}, {"C": 64})],
)
def test_some_fenced_shapes_have_odd_rows_and_whole_multiples_of_an_aligned_vector(ranges, multiples):
    offered = make(probe=ranges)
    tensors = Signature((Tensor("x", ("R", "C")),), (), (Tensor("y", ("R",), role=Role.OUTPUT),))
    task = Task("t", lambda x, **_: x, signature=tensors, workloads={"cpu": offered}, flops="R")
    probes = probe_workloads(offered, np.random.default_rng(0))
    least, odd, *others = fenced_workloads(task, probes, offered)
    assert least.dims == probes[0].dims
    assert all(odd.dims[name] % 2 for name in ranges)
    assert [name for other in others for name in ranges if other.dims[name] != odd.dims[name]] == list(multiples)
    for other, (name, step) in zip(others, multiples.items(), strict=True):
        assert other.dims[name] % step == 0
    for workload in (least, odd, *others):
        assert task.bytes_at(workload) <= 4 << 20
        assert all(low <= workload.dims[name] <= high for name, (low, high) in ranges.items())


@pytest.mark.parametrize("highest", [90_000, 9])
def test_tailed_shapes_leave_every_remainder_of_every_dimension_where_they_can(highest):
    known = (Workload("w", {"R": 8, "C": 500, "K": 9}),)
    ranges = {"R": (3, highest), "C": (100, 90_000), "K": ("R", "R + 300")}
    offered = replace(make(probe=ranges), search=known, holdout=known)
    tensors = Signature((Tensor("x", ("R", "C")),), (), (Tensor("y", ("K",), role=Role.OUTPUT),))
    task = Task("t", lambda x, **_: x, signature=tensors, workloads={"cpu": offered}, flops="R")
    shapes = tailed_workloads(task, offered, np.random.default_rng(0))
    for name in ("R", "C", "K") if highest > 16 else ("C", "K"):
        assert {shape.sizes[name] % 16 for shape in shapes} == {*range(16)}
    for shape in shapes:
        assert task.bytes_at(shape) <= 1 << 19
        assert shape.sizes["R"] <= highest
        assert shape.sizes["R"] <= shape.sizes["K"] <= shape.sizes["R"] + 300
    assert tailed_workloads(task, replace(offered, probe={}), np.random.default_rng(0)) == ()


def test_shapes_of_large_weights_are_few():
    offered = make(probe={"R": (1, 400)})

    def counts(weights: int) -> tuple[int, int]:
        tensors = Signature(
            (Tensor("x", ("R",)), Tensor("w", (weights,))), (), (Tensor("y", ("R",), role=Role.OUTPUT),)
        )
        task = Task("t", lambda x, **_: x, signature=tensors, workloads={"cpu": offered}, flops="R")
        probes = probe_workloads(offered, np.random.default_rng(0))
        return (
            len(fenced_workloads(task, probes, offered)),
            len(tailed_workloads(task, offered, np.random.default_rng(0))),
        )

    assert counts(3 << 20) == (3, 16)  # 12 MiB each
    assert counts(15 << 20) == (3, 4)
    assert counts(90 << 20) == (2, 0)


def on(offered):
    tensors = Signature((Tensor("x", ("R", "C")),), (), (Tensor("y", ("R",), role=Role.OUTPUT),))
    return Task("t", lambda x, **_: x, signature=tensors, workloads={"cpu": offered}, flops="R")


def test_tiled_shapes_have_each_small_size_and_every_tail_behind_a_tile():
    offered = make(probe={"R": (2, 20), "C": (1, 300)})  # rows of the search are 40
    shapes = tiled_workloads(on(offered), offered, np.random.default_rng(0))
    assert {shape.sizes["C"] for shape in shapes} >= {*range(1, 17), *range(65, 129)}
    assert {shape.sizes["R"] for shape in shapes} >= {*range(2, 18), *range(18, 41)}
    assert len({shape.sizes["R"] - shape.sizes["C"] for shape in shapes}) > 40
    assert tiled_workloads(on(offered), replace(offered, probe={}), np.random.default_rng(0)) == ()


def test_a_task_of_large_weights_has_no_tiled_shapes_and_one_of_much_arithmetic_few():
    offered, rng = make(probe={"R": (2, 20), "C": (1, 300)}), np.random.default_rng(0)
    weights = replace(on(offered), bytes_moved="100000000")
    assert tiled_workloads(weights, offered, rng) == ()
    slow = replace(on(offered), flops="1000000000")
    assert len(tiled_workloads(slow, offered, rng)) == 10


@pytest.mark.parametrize("seed", range(10))
def test_lopsided_shapes_have_one_size_unlike_the_others_and_one_has_equal_sizes(seed):
    offered = make(probe={"R": (1, 20), "C": (3, 100)})
    shapes = lopsided_workloads(on(offered), offered, np.random.default_rng(seed))
    many, more, one, long, longer, narrow, square = (shape.sizes for shape in shapes)
    assert (many["R"], many["C"], long["R"], long["C"]) == (40, 3, 1, 500)
    assert 20 <= more["R"] <= 40
    assert 3 <= more["C"] <= 100 <= longer["C"] <= 500
    assert (one["R"], narrow["C"]) == (1, 3)
    assert square["R"] == min(square["C"], 40) >= 16
    assert all(shape.dims["eps"] == 1e-5 for shape in shapes)


def test_lopsided_shapes_keep_to_ends_that_are_expressions_and_to_what_fits():
    padded = make(probe={"C": (3, 60), "R": ("C", "C + 64")})
    for seed in range(20):
        for shape in lopsided_workloads(on(padded), padded, np.random.default_rng(seed)):
            assert shape.sizes["C"] <= shape.sizes["R"] <= shape.sizes["C"] + 64
    known = (Workload("w", {"R": 1 << 22, "C": 9}),)
    offered = replace(make(probe={"R": (1, 20), "C": (3, 9)}), search=known, holdout=known)
    shapes = lopsided_workloads(on(offered), offered, np.random.default_rng(0))
    assert all(on(offered).bytes_at(shape) <= 8 << 20 for shape in shapes)


@pytest.mark.parametrize("seed", range(5))
def test_a_large_size_and_the_small_ones_beside_it_have_tails(seed):
    offered = make(probe={"R": (1, 20), "C": (3, 100)})
    sizes = [shape.sizes for shape in large_tailed_workloads(on(offered), offered, np.random.default_rng(seed))]
    assert len(sizes) == 16
    long, many = sizes[1::2], sizes[::2]
    assert all(485 <= size["C"] <= 500 and size["R"] <= 16 for size in long)
    assert all(25 <= size["R"] <= 40 and size["C"] <= 18 for size in many)
    for name in ("R", "C"):
        assert {size[name] % 16 for size in sizes} == {*range(16)}
        assert len({size[name] % 16 for size in long}) == 8
    assert {size["C"] % 8 for size in long} == {size["R"] % 8 for size in many} == {*range(8)}


@pytest.mark.parametrize("seed", range(5))
def test_sizes_of_the_search_have_all_tails_right_below_them(seed):
    searched = (Workload("w", {"R": 700, "C": 900}), Workload("v", {"R": 64, "C": 2000}))
    offered = replace(make(probe={"R": (1, 20), "C": (3, 100)}), search=searched)
    sizes = [shape.sizes for shape in searched_tailed_workloads(on(offered), offered, np.random.default_rng(seed))]
    assert len(sizes) == 16
    assert {size["R"] > 100 for size in sizes} == {True, False}
    for size in sizes:
        most = {"R": 700, "C": 900} if size["R"] > 100 else {"R": 64, "C": 2000}
        assert all(most[name] - 16 < size[name] <= most[name] for name in most)
    for name in ("R", "C"):
        assert {size[name] % 16 for size in sizes} == {*range(16)}


def test_shapes_right_below_those_of_the_search_keep_to_what_takes_little_work():
    offered = make(probe={"R": (1, 20), "C": (3, 100)})
    slow = replace(on(offered), flops="R * C * 100000")
    assert len(searched_tailed_workloads(slow, offered, np.random.default_rng(0))) < 16
    assert searched_tailed_workloads(on(offered), replace(offered, probe={}), np.random.default_rng(0)) == ()


def test_large_tailed_shapes_keep_to_what_fits():
    known = (Workload("w", {"R": 1 << 20, "C": 9}),)
    offered = replace(make(probe={"R": (1, 20), "C": (3, 9)}), search=known, holdout=known)
    shapes = large_tailed_workloads(on(offered), offered, np.random.default_rng(0))
    assert max(shape.sizes["R"] for shape in shapes) > 4000
    assert all(on(offered).bytes_at(shape) <= 1 << 19 for shape in shapes)
    assert large_tailed_workloads(on(offered), replace(offered, probe={}), np.random.default_rng(0)) == ()


def test_of_three_sizes_each_is_alone_the_least_where_that_is_little_work():
    searched = (Workload("w", {"R": 40, "C": 500, "N": 300}),)
    offered = WorkloadSet(search=searched, holdout=searched, probe={"R": (1, 9), "C": (2, 20), "N": (90, 300)})
    task = replace(on(offered), flops="R * C * N")
    *_, few, short = (each.sizes for each in large_tailed_workloads(task, offered, np.random.default_rng(0)))
    assert few == {"R": 1, "C": 500, "N": 300}
    assert short == {"R": 40, "C": 2, "N": 300}


@pytest.mark.parametrize("seed", range(5))
def test_shapes_for_compiled_kernels_leave_odd_tails_and_need_little_other_code(seed):
    workloads = make(probe={"R": (1, 130), "C": (3, 1500)})
    task, rng = on(workloads), np.random.default_rng(seed)
    probes = probe_workloads(workloads, rng)
    *sizes, first, second = (each.sizes for each in compiled_workloads(task, probes, workloads, rng, final=True))
    odd = [each for each in sizes if each["R"] % 2]
    for name in ("R", "C"):
        assert {size[name] % 64 for size in odd} == {*range(1, 64, 2)}
        assert 1 not in {size[name] for size in sizes}
        drawn = probes[1].sizes[name]
        assert sum(size[name].bit_length() == drawn.bit_length() for size in sizes) >= 32
    factors = [[math.gcd(size, 16) for size in each.values()] for each in sizes if not each["R"] % 2]
    assert sorted(factors) == [[2, 2], [2, 2], [2, 4], [4, 2], [4, 4], [4, 4], [8, 8], [8, 8]]
    assert {(size["R"] == 1, size["C"] == 3) for size in (first, second)} == {(False, True), (True, False)}
    searched = compiled_workloads(task, probes, workloads, rng, final=False)
    assert len(searched) == 16
    for name in ("R", "C"):
        assert {math.gcd(each.sizes[name], 16) for each in searched} == {1, 2, 4}
    assert searched[0].sizes["R"] == searched[0].sizes["C"]
    assert any(size["R"] > 8 * size["C"] for size in sizes)
    assert [again.sizes for again in compiled_again([each.dims for each in searched])] == [s.sizes for s in searched]


@pytest.mark.parametrize("seed", range(5))
def test_compiled_winners_meet_few_rows_of_large_matrices_and_middle_sizes(seed):
    searched = Workload("w", {"M": 2048, "K": 2048, "N": 1024})
    offered = WorkloadSet((searched,), (searched,), {name: (1, 300) for name in searched.dims})
    tensors = Signature(
        (Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))), (), (Tensor("c", ("M", "N"), role=Role.OUTPUT),)
    )
    task = Task("t", lambda a, b: a @ b, tensors, workloads={"cuda": offered}, flops="2 * M * K * N")
    rng = np.random.default_rng(seed)
    shapes = compiled_workloads(task, probe_workloads(offered, rng), offered, rng, final=True)
    sizes = {tuple(shape.sizes.values()) for shape in shapes}
    assert sizes >= {(1, 2048, 1024), (2048, 1, 1024), (2048, 2048, 1)}
    assert any(min(each) > 8 and 300 < max(each) < 1700 for each in sizes)
    assert all(task.flops_at(shape) < task.flops_at(searched) / 8 for shape in shapes)


def test_compiled_winners_meet_odd_sizes_right_below_large_ones_of_the_search():
    searched = Workload("w", {"R": 4096, "C": 8192})
    offered = WorkloadSet((searched,), (searched,), {"R": (1, 70), "C": (1, 300)})
    task, rng = on(offered), np.random.default_rng(0)
    shapes = compiled_workloads(task, probe_workloads(offered, rng), offered, rng, final=True)
    large = [each.sizes for each in shapes if each.sizes["R"] > 4000 and each.sizes["C"] > 8000]
    for name, size in searched.sizes.items():
        assert sorted(size - each[name] for each in large) == [*range(1, 16, 2)]
    few = compiled_workloads(task, probe_workloads(offered, rng), offered, rng, final=False)
    assert not [each for each in few if each.sizes["R"] > 4000 and each.sizes["C"] > 8000]


def test_winners_meet_the_sizes_that_their_text_singles_out():
    workloads = make(probe={"R": (1, 130), "C": (3, 1500)})
    rng = np.random.default_rng(0)
    probes = probe_workloads(workloads, rng)
    for number, others in ((1009, ()), (287, (2, 4, 16))):
        numbers = (*others, number)
        shapes = compiled_workloads(on(workloads), probes, workloads, rng, final=True, numbers=numbers)
        assert number in {shape.sizes["C"] for shape in shapes}
        assert len(shapes) <= 80


def test_a_task_of_many_tensors_has_few_shapes_for_compiled_kernels():
    workloads = make()
    tensors = Signature(tuple(Tensor(f"w{n}", ("R",)) for n in range(79)), (), (Tensor("y", ("R",), role=Role.OUTPUT),))
    task = Task("t", lambda **given: given["w0"], signature=tensors, workloads={"cpu": workloads}, flops="R")
    rng = np.random.default_rng(0)
    assert len(compiled_workloads(task, probe_workloads(workloads, rng), workloads, rng, final=True)) == 3


def test_shapes_for_compiled_kernels_keep_to_ends_that_are_expressions():
    workloads = make(probe={"R": (1, 64), "C": ("R", 300)})
    for seed in range(5):
        rng = np.random.default_rng(seed)
        probes = probe_workloads(workloads, rng)
        for shape in compiled_workloads(on(workloads), probes, workloads, rng, final=True):
            assert shape.sizes["C"] >= shape.sizes["R"]
    fixed = replace(workloads, probe={})
    assert compiled_workloads(on(fixed), probes, fixed, rng, final=True) == ()


@pytest.mark.parametrize("seed", range(10))
def test_a_size_that_another_one_bounds_gets_smaller_with_it(seed):
    offered, rng = make(probe={"C": (3, 130), "R": ("C", "C + 9")}), np.random.default_rng(seed)
    probes = probe_workloads(offered, rng)
    compiled = compiled_workloads(on(offered), probes, offered, rng, final=True)
    for shape in (*compiled, *fenced_workloads(on(offered), probes, offered)):
        assert shape.sizes["C"] <= shape.sizes["R"] <= shape.sizes["C"] + 9


def test_a_range_from_another_size_to_a_number_goes_with_sizes_as_large_as_in_the_search():
    offered = replace(make(probe={"R": (1, 64), "C": ("R + 1", 300)}), search=(Workload("w", {"R": 999, "C": 2000}),))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        probes = probe_workloads(offered, rng)
        shapes = [*lopsided_workloads(on(offered), offered, rng), *tiled_workloads(on(offered), offered, rng)]
        shapes += [*tailed_workloads(on(offered), offered, rng), *large_workloads(offered, rng)]
        shapes += compiled_workloads(on(offered), probes, offered, rng, final=True)
        shapes += singled_out_workloads(on(offered), offered, (70, 701), rng, most=50)
        assert all(1 <= shape.sizes["R"] < shape.sizes["C"] for shape in shapes)
        assert any(shape.sizes["R"] > 300 for shape in shapes)
        assert not within_ranges(offered, max(shapes, key=lambda shape: shape.sizes["R"]))
    assert all(within_ranges(offered, shape) for shape in probes)


def test_a_range_of_few_sizes_gives_each_shape_once():
    offered, rng = make(probe={"R": (1, 3)}), np.random.default_rng(0)
    few = replace(offered, search=(Workload("w", {"R": 3, "C": 500}),))
    tiled = tiled_workloads(on(few), few, rng)
    assert sorted(shape.sizes["R"] for shape in tiled) == [1, 2, 3]
    named = singled_out_workloads(on(few), few, (2, 19, 127), rng, most=96)
    assert len(named) == len({shape.sizes["R"] for shape in named})


@pytest.mark.parametrize("seed", range(5))
def test_sizes_that_numbers_in_a_program_single_out_come_first_and_remainders_by_its_own_blocks_next(seed):
    workloads = make(probe={"R": (1, 130), "C": (3, 900)})
    rng = np.random.default_rng(seed)
    shapes = singled_out_workloads(on(workloads), workloads, (2, 19, 127, 701), rng, most=8)
    assert len(shapes) == 8
    assert {19, 127} <= {shape.sizes["R"] for shape in shapes}
    assert {19, 127, 701} <= {shape.sizes["C"] for shape in shapes}
    many = singled_out_workloads(on(workloads), workloads, (2, 19, 127, 701), rng, most=200)
    assert {(shape.sizes["C"], shape.sizes["C"] % 128) for shape in many} >= {(147, 19), (130, 2), (700, 60), (702, 62)}
    for shape in many:
        assert 1 <= shape.sizes["R"] <= 130
        assert 3 <= shape.sizes["C"] <= 900
        assert on(workloads).bytes_at(shape) <= 1 << 20


def test_sizes_beyond_a_range_but_not_beyond_the_search_are_singled_out_one_at_a_time():
    workloads, rng = make(probe={"R": (1, 30), "C": (3, 300)}), np.random.default_rng(0)
    shapes = singled_out_workloads(on(workloads), workloads, (37, 401), rng, most=20)
    assert {37, 401} & {shape.sizes["C"] for shape in shapes[:4]} == {37, 401}
    assert all(shape.sizes["R"] <= 30 for shape in shapes if shape.sizes["C"] > 300)
    assert any(shape.sizes["R"] == 37 for shape in shapes)


def test_nothing_is_singled_out_without_numbers_or_without_sizes_that_vary():
    workloads, rng = make(), np.random.default_rng(0)
    assert singled_out_workloads(on(workloads), replace(workloads, probe={}), (19, 127), rng, most=8) == ()
    few = singled_out_workloads(on(workloads), workloads, (), rng, most=8)
    assert few == ()

"""Trees over sizes: each size has one arm, no kernel answers where it is slow, and merging loses nothing measured."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.export.dispatch_tree import (
    TORCH,
    Branch,
    MeasuredSize,
    Tree,
    _Growth,
    _merged,
    borders,
    choose,
    combined,
    fit_tree,
    leaves,
    spread,
    tree_text,
)
from evokernel.records.timing import Speedup

NAMES = ("M", "K")
KERNELS = ("kernel", "kernel_other")
SIZES = st.fixed_dictionaries({name: st.integers(1, 4096) for name in NAMES})
SPEEDUPS = st.builds(Speedup.from_log, st.floats(-1, 1), st.floats(0.0005, 0.2))
POINTS = st.lists(
    st.builds(MeasuredSize, SIZES, st.fixed_dictionaries({arm: SPEEDUPS for arm in KERNELS})), min_size=1, max_size=14
)
ACCEPTED = st.sampled_from([0.0, 0.9, 1.0, 1.1])


def reached(tree: Tree, sizes: Mapping[str, int]) -> list[str]:
    """Return the arms of all leaves whose answers all hold."""
    if not isinstance(tree, Branch):
        return [tree.arm]
    return [
        arm
        for below, holds in ((tree.yes, True), (tree.no, False))
        if tree.split.holds(sizes) is holds
        for arm in reached(below, sizes)
    ]


def told(tree: Tree, sizes: Mapping[str, int]) -> str:
    """Return the arm that the text of an export answers."""
    scope: dict[str, object] = {arm: arm for arm in KERNELS}
    exec(f"def between(sizes):\n{tree_text(tree)}", scope)
    return scope["between"](sizes) or TORCH  # type: ignore[operator]


@settings(deadline=None, max_examples=60)
@given(points=POINTS, accept_from=ACCEPTED, sizes=st.lists(SIZES, min_size=1, max_size=5))
def test_each_size_has_exactly_one_arm(
    points: list[MeasuredSize], accept_from: float, sizes: list[dict[str, int]]
) -> None:
    tree = fit_tree(points, accept_from=accept_from)
    for each in (*sizes, *(point.sizes for point in points)):
        assert reached(tree, each) == [choose(tree, each)] == [told(tree, each)]
    kept = [point for _, leaf in leaves(tree) for point in leaf.points]
    assert sorted(map(id, kept)) == sorted(map(id, points))
    assert all(leaf.arm == choose(tree, point.sizes) for _, leaf in leaves(tree) for point in leaf.points)


@settings(deadline=None, max_examples=60)
@given(points=POINTS, accept_from=ACCEPTED)
def test_a_kernel_answers_only_where_no_interval_begins_below_what_is_accepted(
    points: list[MeasuredSize], accept_from: float
) -> None:
    for _, leaf in leaves(fit_tree(points, accept_from=accept_from)):
        if leaf.arm != TORCH:
            assert len(leaf.points) >= 3
            assert leaf.interval.low == min(point.speedups[leaf.arm].low for point in leaf.points) >= accept_from


@settings(deadline=None, max_examples=60)
@given(points=POINTS, accept_from=st.sampled_from([1.0, 1.1]))
def test_merging_never_worsens_the_measured_time_beyond_the_intervals(
    points: list[MeasuredSize], accept_from: float
) -> None:
    grown = _Growth(points, accept_from).tree((1 << len(points)) - 1, 4)
    merged = _merged(grown, accept_from)
    for _, leaf in leaves(grown):
        (arm,) = {choose(merged, point.sizes) for point in leaf.points}
        before = 1.0 if leaf.arm == TORCH else combined(leaf.points, leaf.arm).low
        after = 1.0 if arm == TORCH else combined(leaf.points, arm).high
        assert arm == leaf.arm or after >= before
    assert len([*leaves(merged)]) <= len([*leaves(grown)])


def point(m: int, k: int, **values: float) -> MeasuredSize:
    speedups = {arm: Speedup.from_log(math.log(value), 0.002) for arm, value in values.items()}
    return MeasuredSize({"M": m, "K": k}, speedups)


def two(m: int, k: int) -> MeasuredSize:
    """Measure a kernel for small M, one for large M, and neither where K is no multiple of 16."""
    if k % 16:
        return point(m, k, kernel=0.8, kernel_other=0.7)
    return point(m, k, kernel=1.3 if m < 900 else 0.9, kernel_other=0.95 if m < 900 else 1.2)


SPECIALISTS = [two(m, k) for m in (128, 256, 512, 1024, 2048, 4096) for k in (64, 100, 512, 1000, 2048)]


def test_specialists_become_one_operator_with_measured_boundaries() -> None:
    tree = fit_tree(SPECIALISTS, accept_from=1.0)
    assert {arm: choose(tree, sizes) for arm, sizes in {
        "kernel": {"M": 300, "K": 256}, "kernel_other": {"M": 3000, "K": 4096}, TORCH: {"M": 3000, "K": 333}
    }.items()} == {arm: arm for arm in ("kernel", "kernel_other", TORCH)}  # fmt: skip
    assert len([*leaves(tree)]) <= 4
    assert (512, 1024) in {(one.sizes["M"], other.sizes["M"]) for one, other in borders(tree)}
    assert "over torch, measured at" in tree_text(tree)


def test_leaves_whose_intervals_overlap_are_one() -> None:
    close = [point(m, 64, kernel=1.2, kernel_other=1.2 + (0.003 if m > 512 else -0.003)) for m in range(128, 1280, 128)]
    ((path, leaf),) = leaves(fit_tree(close, accept_from=1.0))
    assert path == ()
    assert leaf.arm in KERNELS


def test_what_is_accepted_decides_between_kernel_and_torch() -> None:
    slow = [point(m, 64, kernel=0.95) for m in (1, 2, 3, 4)]
    assert choose(fit_tree(slow, accept_from=1.0), {"M": 2, "K": 64}) == TORCH
    assert choose(fit_tree(slow, accept_from=0.9), {"M": 2, "K": 64}) == "kernel"
    assert spread(slow, "kernel").high < 1
    with pytest.raises(ValueError, match="needs a measured size"):
        fit_tree([], accept_from=1.0)

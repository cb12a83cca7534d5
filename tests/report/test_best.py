"""Which kernel is the best, and which numbers are said of it."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.store import Store
from archive.views.candidate_tables import seeds
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.timing import Speedup, floor_share
from evokernel.report.best import BestKernel, find_best
from evokernel.report.verdicts import Holdout, MeasurementKind, ProgramVerdicts, over_baselines, quotient
from tests.support.stores import StoreBuilder, fill_store


def best_of(path: Path) -> BestKernel | None:
    with Store.open(path, write=False) as store:
        return find_best(store)


def test_a_crowned_kernel_reports_its_final_measurement(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.kind, best.holdout) == (ids["best"], MeasurementKind.FINAL, Holdout.PASSED)
    assert best.speedup.value == pytest.approx(4.9)
    assert list(best.baselines) == ["compiled", "torch"]
    assert best.over_seed is not None
    assert (best.over_seed.kind, best.over_seed.candidate) == (MeasurementKind.FINAL, ids["seed"])
    assert best.over_seed.speedup.value == pytest.approx(49.0)
    assert best.contender is None


def test_without_a_crown_search_numbers_are_said_to_be_such(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db", crowned=False)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.kind, best.holdout) == (ids["best"], MeasurementKind.SEARCH, Holdout.PENDING)
    assert best.baselines["torch"].value == pytest.approx(6.0)
    assert best.over_seed is not None
    assert best.over_seed.kind is MeasurementKind.SEARCH
    assert best.over_seed.speedup.value == pytest.approx(60.0)


def test_a_crowned_kernel_comes_before_a_fitter_one(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        crowned = builder.add("// crowned\n", speedup=2.0)
        fitter = builder.add("// fitter\n", speedup=9.0)
        builder.final(crowned, speedup=1.9)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.contender) == (crowned, fitter)
    assert best.contender_leads
    assert best.to_export == fitter
    assert best.contender_speedup is not None
    assert best.contender_speedup.value == pytest.approx(9.0)
    assert best.over_seed is not None
    assert best.over_seed.kind is MeasurementKind.SEARCH  # the seed has no final measurement to compare with
    assert best.over_seed.speedup.value == pytest.approx(20.0)


def test_a_fitter_one_leads_only_where_its_interval_begins_above(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        crowned = builder.add("// crowned\n", speedup=2.0)
        fitter = builder.add("// fitter\n", speedup=2.02)
        builder.final(crowned, speedup=2.01)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.contender, best.contender_leads, best.nowhere_faster) == (fitter, False, False)
    assert best.to_export == crowned


def test_among_crowned_kernels_the_final_number_does_not_select(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        first, second = builder.add("// 1\n", speedup=3.0), builder.add("// 2\n", speedup=2.9)
        builder.final(first, speedup=2.0)
        builder.final(second, speedup=2.5)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert best.candidate.id == first


def test_a_kernel_that_did_not_hold_is_never_the_best(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        liar, honest = builder.add("// liar\n", speedup=9.0), builder.add("// honest\n", speedup=2.0)
        builder.final(liar, speedup=None)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.holdout, best.contender) == (honest, Holdout.PENDING, None)


def test_a_measured_seed_does_not_hide_what_was_found(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed()
        found = builder.add("// found\n", speedup=2.0)
        builder.final(seed, speedup=0.1)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.holdout) == (found, Holdout.PENDING)


def test_a_seed_that_nothing_beats_is_the_best_whatever_was_crowned_before(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=2.0)
        slower = builder.add("// slower\n", speedup=1.5)
        builder.final(seed, speedup=1.9)
        builder.final(slower, speedup=1.95)
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert (best.candidate.id, best.holdout, best.contender) == (seed, Holdout.PASSED, None)
    assert best.is_seed


def test_the_fastest_of_several_seeds_is_compared_with(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        slow, fast = builder.seed(speedup=0.1), builder.seed(speedup=0.5, source="// another\n")
        builder.add("// found\n", speedup=2.0, parents=(slow,))
        assert seeds(builder.store) == [slow, fast]
    best = best_of(tmp_path / "a.db")
    assert best is not None
    assert best.over_seed is not None
    assert best.over_seed.candidate == fast
    assert best.over_seed.speedup.value == pytest.approx(4.0)


def test_nothing_right_yet(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.add("// wrong\n", speedup=None)
    assert best_of(tmp_path / "a.db") is None


def make_evaluation(tmp_path: Path, **details: object) -> Evaluation:
    with StoreBuilder(tmp_path / "scratch.db") as builder:
        return builder.evaluation(Candidate("// x\n", "cpp"), **details)  # type: ignore[arg-type]


def test_a_larger_budget_speaks_and_our_own_faults_do_not(tmp_path: Path) -> None:
    quick = make_evaluation(tmp_path, speedup=3.0)
    precise = make_evaluation(tmp_path, speedup=2.0, budget=Fidelity.PRECISE)
    fault = make_evaluation(tmp_path, speedup=None, status=Status.HARNESS_ERROR)
    verdicts = ProgramVerdicts.of([precise, quick, fault])
    assert verdicts.search == precise
    assert verdicts.failure is None


def test_failed_programs_have_no_fitness(tmp_path: Path) -> None:
    verdicts = ProgramVerdicts.of([make_evaluation(tmp_path, speedup=3.0), make_evaluation(tmp_path, speedup=None)])
    assert verdicts.fitness is None
    assert verdicts.failure is not None


def test_floor_share_and_baselines(tmp_path: Path) -> None:
    evaluation = make_evaluation(tmp_path, speedup=5.0)
    assert floor_share(evaluation.timings) == pytest.approx(0.5)
    assert over_baselines(evaluation)["torch"].value == pytest.approx(5.0)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 0.2), st.floats(0, 0.2))
def test_quotient_holds_both_errors(one: float, other: float, first: float, second: float) -> None:
    ratio = quotient(Speedup.from_log(math.log(one), first), Speedup.from_log(math.log(other), second))
    expected = Speedup.from_log(math.log(one / other), math.hypot(first, second))
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((expected.value, expected.low, expected.high))

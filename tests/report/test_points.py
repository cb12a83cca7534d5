"""Every candidate in one pass: what it is worth now, what the run had used when it came, and who is of its family."""

import math
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Status
from evokernel.report.points import NOT_JUDGED, Point, lanes, leads, points_of
from tests.support.stores import StoreBuilder, fill_store


def test_a_candidate_is_worth_what_is_known_now(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        points = {point.candidate: point for point in points_of(store)}
    assert {name: points[ids[name]].speedup for name in ("seed", "tiled", "best")} == {
        "seed": pytest.approx(0.1),
        "tiled": pytest.approx(1.0),
        "best": pytest.approx(6.0),  # as in the search: the final measurement is for the answer only
    }
    assert (points[ids["wrong"]].speedup, points[ids["wrong"]].status) == (None, "numerical")
    assert points[ids["best"]].parent == ids["tiled"]
    assert [point.evaluations for point in points.values()] == [1, 2, 3, 4]


def test_one_that_fails_held_out_inputs_never_led(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=1.0)
        fooled = builder.add("// fooled\n", speedup=9.0, parents=(seed,))
        honest = builder.add("// honest\n", speedup=2.0, parents=(seed,), island="others")
        slower = builder.add("// slower\n", speedup=1.5, parents=(seed,))
        builder.final(fooled, speedup=None, status=Status.HOLDOUT_FAILED)
        points = points_of(builder.store)
    names = [point.candidate for point in points]
    assert [names[place] for place in leads(points)] == [seed, honest]
    assert [names[place] for place in leads(points, island="builders")] == [slower]
    assert points[names.index(fooled)].status == "holdout_failed"


def test_what_waits_comes_last_and_a_fault_of_ours_is_no_verdict(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed(speedup=1.0)
        waiting = builder.propose("// waiting\n").candidate.id
        ours = builder.add("// ours\n", speedup=None, status=Status.HARNESS_ERROR)
        points = points_of(builder.store)
    assert [(point.candidate, point.status) for point in points[1:]] == [
        (ours, "harness_error"),
        (waiting, NOT_JUDGED),
    ]


def test_hours_leave_out_the_time_between_sessions(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        builder.store.session_end("enough", seconds=3600.0)
        # The first session began a day before: what lies between the two is no search.
        builder.store.database.execute("UPDATE sessions SET started = started - 86400")
        builder.store.database.execute("UPDATE journal SET at = at - 86400")
        builder.store.session_start()
        builder.add("// later\n", speedup=1.0)
        first, second = points_of(builder.store)
    assert 0 <= first.hours < 0.5
    assert 1.0 <= second.hours < 1.5


def test_dollars_count_calls_and_what_proposals_say(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        builder.call(cost_usd=0.25)
        builder.add("// asked\n", speedup=1.0, operator="mutate", usage=Usage(model="small", cost_usd=0.25))
        builder.add("// told\n", speedup=1.0, usage=Usage(model="elsewhere", cost_usd=0.5))
        points = points_of(builder.store)
        assert points[-1].dollars == pytest.approx(builder.store.spent().cost_usd)
    assert [point.dollars for point in points] == pytest.approx([0.0, 0.25, 0.75])
    assert [point.model for point in points] == ["", "small", "elsewhere"]


def family(*members: tuple[str, str]) -> list[Point]:
    return [
        Point(name, step, "op", "i", "", "", None, parent, "", "ok", 1.0, 1.0, step, "", step, 0.0, 0.0)
        for step, (name, parent) in enumerate(members)
    ]


def test_families_stand_together() -> None:
    points = family(("a", ""), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", ""))
    heights = dict(zip("abcdef", lanes(points), strict=True))
    assert heights == {"d": 0, "e": 1, "b": 0.5, "c": 2, "a": 1.25, "f": 3}


def test_a_long_line_of_descent_needs_no_recursion() -> None:
    points = family(("0", ""), *((str(step), str(step - 1)) for step in range(1, 5000)))
    assert set(lanes(points)) == {0.0}


def test_curve_and_status_name_the_same_leader(tmp_path: Path) -> None:
    fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        points, (top,) = points_of(store), store.best(1)
    last = points[leads(points)[-1]]
    assert last.candidate == top.candidate.candidate.id
    assert last.low == pytest.approx(math.exp(top.fitness.value))

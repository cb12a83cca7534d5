"""Where a run stands, and how a candidate came about."""

from pathlib import Path

import pytest

from archive.follower import RunFollower
from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Mode
from evokernel.report.lineage import portrait, story
from evokernel.report.recent import recent_events
from evokernel.report.status import RunState, read_status
from tests.support.stores import StoreBuilder, fill_store


def test_counts_operators_and_islands(tmp_path: Path) -> None:
    fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        status = read_status(store)
    assert (status.results, status.correct, status.in_flight) == (4, 3, 0)
    assert status.last_stop == "budget of 4 evaluations used"
    operators = {row.name: (row.results, row.correct, row.improvements) for row in status.operators}
    assert operators == {"rewrite": (2, 1, 1), "seed": (1, 1, 1), "tune": (1, 1, 1)}
    assert {row.name: row.best for row in status.islands} == pytest.approx({"builders": 1.0, "tuners": 6.0})


def test_improvements_are_in_order(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        improvements = read_status(store).improvements
    assert [improvement.candidate for improvement in improvements] == [ids["seed"], ids["tiled"], ids["best"]]
    assert [improvement.speedup for improvement in improvements] == pytest.approx([0.1, 1.0, 6.0])


def test_a_run_in_progress(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        builder.propose("// waiting\n")
        builder.add("// dear\n", speedup=1.0, usage=Usage(model="m", cost_usd=0.5))
        with Store.open(tmp_path / "a.db", write=False) as store:  # while the engine writes
            status = read_status(store)
    assert (status.in_flight, status.last_stop, status.spent.cost_usd) == (1, "", 0.5)
    assert status.state is RunState.RUNNING
    assert {row.name: row.cost_usd for row in status.operators}["rewrite"] == 0.5


def test_what_an_ended_run_has_not_judged_is_left_and_not_in_flight(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        builder.propose("// waiting\n")
        running = read_status(builder.store)
        builder.store.session_end("budget of 1 s used")
        ended = read_status(builder.store)
        builder.store.session_start()
        resumed = read_status(builder.store)
    assert [(each.in_flight, each.left) for each in (running, ended, resumed)] == [(1, 0), (0, 1), (1, 0)]


def test_a_kernel_whose_step_was_cut_short_leads_in_every_line(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        fast = builder.propose("// fast\n").candidate
        builder.store.add_evaluation(builder.evaluation(fast, speedup=3.0))
        builder.store.session_end("stopped by SIGTERM")
        status = read_status(builder.store, follower := RunFollower(builder.store))
        queries: list[str] = []
        builder.store.database.connection.set_trace_callback(queries.append)
        recent = recent_events(builder.store, 0.0, follower)
        assert not any("FROM results r JOIN journal" in each for each in queries), "facts are read once"
    assert (status.left, status.best.candidate.id) == (1, fast.id)
    assert status.improvements[-1].candidate == recent.now.candidate == recent.changes[-1].candidate == fast.id


def test_state_of_a_run(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.store.database.execute("UPDATE sessions SET last_seen = last_seen - 1000")
        assert read_status(builder.store).state is RunState.KILLED
        builder.store.session_end("enough")
        assert read_status(builder.store).state is RunState.STOPPED
    with Store.open(tmp_path / "b.db", write=True) as store:
        assert read_status(store).state is RunState.NEW


def test_story_follows_first_parents(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        line = story(store, ids["best"][:8])
        family = story(store, ids["best"], everyone=True)
    assert [chapter.candidate for chapter in line] == [ids["seed"], ids["tiled"], ids["best"]]
    assert line[0].gain is None
    assert [chapter.gain for chapter in line[1:]] == pytest.approx([10.0, 6.0])
    assert [chapter.candidate for chapter in family] == [ids["seed"], ids["tiled"], ids["wrong"], ids["best"]]
    assert family[2].status == "numerical"


def test_portrait_of_a_failure(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        found = portrait(store, ids["wrong"])
        with pytest.raises(StoreError, match="no candidate"):
            portrait(store, "f" * 16)
    assert found.speedup is None
    assert found.verdicts.failure is not None


def test_every_speedup_knows_how_it_was_measured(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=1.0)
        recorded = builder.add("// recorded\n", speedup=2.0, parents=(seed,), mode=Mode.ARTIFACT)
        builder.add("// too\n", speedup=1.5, parents=(seed,), mode=Mode.ARTIFACT, island="others")
        builder.add("// not recorded\n", speedup=3.0, parents=(recorded,), mode=Mode.WORKER)
        builder.add("// wrong\n", speedup=None, parents=(recorded,), mode=Mode.ARTIFACT)
        status = read_status(builder.store)
        line = story(builder.store, recorded)
    assert (status.mode, status.by_mode) == (Mode.ARTIFACT, {"artifact": 3, "worker": 2})
    assert [found.mode for found in status.improvements] == ["worker", "artifact", "worker"]
    assert {row.name: row.mode for row in status.islands} == {"builders": "worker", "others": "artifact"}
    assert [chapter.mode for chapter in line] == ["worker", "artifact"]
    assert status.best is not None
    assert status.best.over_seed is not None
    assert status.best.over_seed.mode == "worker"

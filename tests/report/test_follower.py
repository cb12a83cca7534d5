"""A run followed fact by fact comes to what the search itself knows."""

import asyncio
import math
from pathlib import Path

import pytest

from archive.follower import RunFollower
from archive.fork import fork
from archive.store import Store
from evokernel.cli.display.following import StoreFollower as Watching
from evokernel.cli.display.snapshot import Snapshot, SnapshotTaker
from evokernel.records.evaluation import Status
from evokernel.records.events import Event
from evokernel.report.points import leads, points_of
from tests.support.engine import Heard, toy_config, toy_search
from tests.support.fakes import WIDE_TOY, InstantEvaluator
from tests.support.stores import StoreBuilder


class Following(Heard):
    """Looks at the store after each event, as somebody else would."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.follower: RunFollower | None = None
        self.seen = 0

    def hear(self, event: Event) -> None:
        super().hear(event)
        if self.follower is None:
            self.follower = RunFollower(Store.open(self._path, write=False))
        self.seen += len(self.follower.advance())


@pytest.fixture
def followed(tmp_path: Path) -> tuple[Following, Snapshot, RunFollower, list[float]]:
    """A toy search of 80 candidates: who followed it, its last snapshot, and who reads the store afterwards."""
    path, config = tmp_path / "a.db", toy_config(budget={"evaluations": 80}, reset_after=None, migration={"every": 999})
    heard = Following(path)
    with Store.open(path, write=True) as store:
        engine = toy_search(store, config, InstantEvaluator(), source=WIDE_TOY, heard=heard)
        asyncio.run(engine.run())
        snapshot = SnapshotTaker(engine, store).snapshot()
        points = points_of(store)
        led = [points[place].speedup or 0.0 for place in leads(points)]
    afterwards = RunFollower(Store.open(path, write=False))
    afterwards.advance()
    return heard, snapshot, afterwards, led


def test_what_is_followed_is_what_the_search_knows(
    followed: tuple[Following, Snapshot, RunFollower, list[float]],
) -> None:
    heard, snapshot, afterwards, led = followed
    assert heard.follower is not None
    heard.follower.advance()
    assert len(led) > 3
    for follower in (heard.follower.account, afterwards.account):
        assert follower.lead is not None
        assert follower.seed is not None
        assert (follower.results, follower.correct) == (snapshot.results, snapshot.correct)
        assert follower.since_improvement == snapshot.progress.since_improvement
        assert (follower.lead.candidate, follower.lead.low) == (snapshot.best, pytest.approx(snapshot.low))
        assert follower.over_seed == pytest.approx(snapshot.over_seed)
        assert [speedup for _, speedup in follower.curve] == pytest.approx(led)
        populations = {
            name: (len(p.niches), p.best.speedup if p.best else None, p.stale)
            for name, p in follower.populations.items()
        }
        islands = {island.name: (island.niches, island.best, island.stale) for island in snapshot.islands}
        assert populations == {name: (n, pytest.approx(best), stale) for name, (n, best, stale) in islands.items()}


def test_nothing_is_seen_twice(followed: tuple[Following, Snapshot, RunFollower, list[float]]) -> None:
    heard, snapshot, afterwards, _ = followed
    assert heard.follower is not None
    assert heard.seen + len(heard.follower.advance()) == snapshot.results
    assert afterwards.advance() == []


def test_a_long_run_is_taken_in_bit_by_bit(
    followed: tuple[Following, Snapshot, RunFollower, list[float]], tmp_path: Path
) -> None:
    _, _, afterwards, _ = followed
    with Store.open(tmp_path / "a.db", write=False) as store:
        slowly, seen = RunFollower(store), 0
        while slowly.seq < store.last_seq():
            found = slowly.advance(most=7)
            assert len(found) <= 7
            seen += len(found)
    assert (seen, slowly.account) == (afterwards.account.results, afterwards.account)


def test_a_leader_that_does_not_hold_gives_way(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=0.1)
        second = builder.add("// second\n", speedup=2.0, parents=(seed,))
        first = builder.add("// first\n", speedup=3.0, parents=(seed,))
        follower = RunFollower(builder.store)
        assert [seen.change is not None for seen in follower.advance()] == [True, True, True]
        assert follower.account.lead is not None
        assert follower.account.lead.candidate == first
        builder.final(first, speedup=None)
        assert follower.advance() == []
        assert (follower.account.lead.candidate, follower.account.curve[-1]) == (second, (3, pytest.approx(2.0)))
        builder.add("// third\n", speedup=2.5, parents=(second,))
        (third,) = follower.advance()
        assert third.change is not None
        assert follower.account.lead.candidate == third.result.candidate


def test_what_went_wrong_with_us_counts_for_nothing(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=0.1)
        builder.add("// ours\n", speedup=None, parents=(seed,), status=Status.HARNESS_ERROR)
        builder.add("// wrong\n", speedup=None, parents=(seed,))
        follower = RunFollower(builder.store)
        seen = [each.result.measured for each in follower.advance()]
    assert [each.status for each in seen] == ["ok", "harness_error", "numerical"]
    assert [each.fitness and math.exp(each.fitness.log_speedup) for each in seen] == [pytest.approx(0.1), None, None]
    account = follower.account
    assert (account.results, account.correct, account.since_improvement) == (3, 1, 1)
    assert account.populations["builders"].stale == 1


def test_what_a_fork_brought_along_is_in_no_budget(tmp_path: Path) -> None:
    source, path = tmp_path / "a.db", tmp_path / "b.db"
    with Store.open(source, write=True) as store:
        asyncio.run(toy_search(store, toy_config(), InstantEvaluator()).run())
        best = store.best(1)[0].candidate.candidate.id
    fork(source, path, candidate=best)
    config = toy_config(budget={"evaluations": 5})
    with Store.open(path, write=True) as store:
        engine = toy_search(store, config, InstantEvaluator())
        asyncio.run(engine.run())
        own = SnapshotTaker(engine, store).snapshot()
    other = Watching(path).look().snapshot
    for snapshot in (own, other):
        assert snapshot.results > snapshot.progress.evaluations == 5
        assert (snapshot.remaining, snapshot.correct <= snapshot.results) == (0.0, True)
    assert (own.results, own.correct, own.best) == (other.results, other.correct, other.best)

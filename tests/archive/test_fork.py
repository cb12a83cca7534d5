import threading

import pytest

from archive.fork import fork
from archive.journal import EvaluationEntry, ResultEntry
from archive.lineage import ancestors, main_line
from archive.store import NoCandidate, Store
from evokernel.errors import StoreError
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Fidelity, Status
from tests.archive.records import IDENTITY, bad, candidate, good, key, proposal, propose, result


def ident(name):
    return candidate(name).id


@pytest.fixture
def run(path):
    with Store.open(path, write=True) as store:
        store.begin_run(IDENTITY)
        result(store, 1)
        store.record_no_candidate(NoCandidate(2, "tune", "main", 1))
        result(store, 3, 0.1, usage=Usage("m", cost_usd=1.0))
        result(store, 4, 0.2, parents=(ident(1),), inspirations=(ident(3),), asked_seq=3)
        store.propose(proposal(5, "twin", parents=(ident(4),), asked_seq=4), program_hash="p3", skeleton="s")
        store.commit(5, good(3, 0.1), reused_from=3)
        store.add_evaluation(good(4, 0.3, Fidelity.PRECISE))
        result(store, 6, 0.5, parents=(ident("twin"),), asked_seq=6)
        result(store, 7, 0.9, parents=(ident(1),))
        propose(store, 8, parents=(ident(6),))
    return path


def test_a_fork_holds_the_ancestors_with_their_origin(run, tmp_path):
    target = tmp_path / "new" / "fork.db"
    before = run.read_bytes()
    assert fork(run, target, candidate=ident(6)[:12]) == 4
    assert run.read_bytes() == before
    with Store.open(run, write=False) as old, Store.open(target, write=True) as new:
        assert new.verify() == []
        name = old.meta("run_id")
        assert (new.meta("forked_from"), new.meta("forked_candidate")) == (name, ident(6))
        assert new.meta("run_id") != name
        assert new.identity() is None
        assert main_line(new, ident(6)) == main_line(old, ident(6))
        facts = list(new.facts())
        assert [type(fact) for fact in facts] == [
            ResultEntry,
            EvaluationEntry,
            ResultEntry,
            ResultEntry,
            EvaluationEntry,
            ResultEntry,
        ]
        assert [fact.seq for fact in facts] == [1, 2, 3, 4, 5, 6]
        assert facts[0].origin == f"{name}:1"
        assert facts[0].evaluation == good(1)
        assert facts[2].proposal.inspirations == ()  # step 3 stayed behind
        assert facts[2].proposal.asked_seq == 2
        assert (facts[3].reused, facts[3].evaluation.candidate_id) == (True, ident("twin"))
        assert facts[5].proposal.asked_seq == 5
        assert (new.next_step(), new.missing_steps(), new.open_leases()) == (5, [], [])
        spent = new.spent()
        assert (spent.seconds, spent.cost_usd, spent.evaluations, spent.steps) == (0.0, 0.0, 0, 0)
        assert new.find_evaluation(key(6)).origin.startswith(f"{name}:")
        assert new.candidate(ident(6)).origin == f"{name}:6"
        new.session_start()
        new.begin_run(IDENTITY)
        result(new, 5, parents=(ident(6),))
        assert (new.spent().evaluations, new.spent().steps) == (1, 1)
        assert new.best(1)[0].candidate.candidate.id == ident(6)
    with pytest.raises(StoreError, match="holds a run"):
        fork(run, target, candidate=ident(6))


def test_a_fork_of_a_fork_keeps_the_first_origin(run, tmp_path):
    fork(run, tmp_path / "a.db", candidate=ident(6))
    fork(tmp_path / "a.db", tmp_path / "b.db", candidate=ident(4))
    with Store.open(run, write=False) as first, Store.open(tmp_path / "b.db", write=False) as last:
        assert last.candidate(ident(4)).origin == f"{first.meta('run_id')}:4"
        assert ancestors(last, ident(4)) == {ident(1)}
        assert last.verify() == []


def test_what_is_in_flight_is_in_flight_in_the_fork(run, tmp_path):
    fork(run, tmp_path / "a.db", candidate=ident(8))
    with Store.open(tmp_path / "a.db", write=True) as store:
        assert [lease.candidate.id for lease in store.open_leases()] == [ident(8)]
        assert store.verify() == []


def test_a_fork_of_nothing_leaves_nothing(run, tmp_path):
    with pytest.raises(StoreError, match="no candidate"):
        fork(run, tmp_path / "a.db", candidate="ffffffffffff")
    assert not (tmp_path / "a.db").exists()
    with pytest.raises(StoreError, match="itself"):
        fork(run, run, candidate=ident(6))


def test_a_failed_candidate_is_forked_with_what_it_came_from(run, tmp_path):
    with Store.open(run, write=True) as store:
        propose(store, 9, parents=(ident(4),))
        store.commit(9, bad(9))
    assert fork(run, tmp_path / "a.db", candidate=ident(9)) == 3
    with Store.open(tmp_path / "a.db", write=False) as store:
        assert store.verify() == []
        assert store.evaluations_of("p9")[0].evaluation.status is Status.NUMERICAL
        assert ancestors(store, ident(9)) == {ident(1), ident(4)}


def test_all_queries_of_a_snapshot_see_one_state(run):
    with Store.open(run, write=True) as writer, Store.open(run, write=False) as reader:
        with reader.database.snapshot():
            before = reader.last_seq()
            result(writer, 20)
            assert reader.last_seq() == before
        assert reader.last_seq() == before + 1


def test_a_store_is_forked_while_it_is_being_written(path, tmp_path):
    with Store.open(path, write=True) as store:
        store.begin_run(IDENTITY)
        result(store, 1)
    ended = threading.Event()

    def write():
        with Store.open(path, write=True) as store:
            for step in range(2, 5000):
                result(store, step, parents=(ident(1),), asked_seq=store.last_seq())
                if ended.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(12):
            with Store.open(path, write=False) as store:
                row = store.database.row("SELECT id FROM candidates ORDER BY rowid DESC LIMIT 1")
                assert row is not None
                newest = row["id"]
            target = tmp_path / f"fork{number}.db"
            fork(path, target, candidate=newest)
            with Store.open(target, write=False) as store:
                assert store.verify() == []
                assert store.candidate(newest).candidate.id == newest
    finally:
        ended.set()
        writer.join()

import math
import sqlite3
from dataclasses import replace

import pytest

from archive.journal import ConfigEntry, EmptyStep, EvaluationEntry, InboxEntry, ResultEntry, StopEntry
from archive.store import NoCandidate, Store, set_aside
from archive.views.effort import outcomes_by_operator
from evokernel.errors import RunMismatch, StoreCorrupt, StoreError
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Fidelity, Status
from evokernel.records.fitness import fitness_of
from evokernel.records.timing import Speedup
from tests.archive import records as making
from tests.archive.records import IDENTITY, bad, good, key, proposal, propose, result


def test_a_proposal_and_its_result_come_back_as_they_were(store):
    result(store, 1)
    made = propose(store, 2, parents=(making.candidate(1).id,), rationale="ü\0\n", predicted_speedup=1.5)
    verdict = replace(
        good(2), panel={"torch": Speedup(1.5, 1.0, 2.0)}, metrics={"x": math.inf, "n": 3}, feedback="日本"
    )
    seq = store.commit(2, verdict)
    fact = next(store.facts(after=1))
    assert isinstance(fact, ResultEntry)
    assert (fact.seq, fact.proposal, fact.evaluation, fact.reused) == (seq, made, verdict, False)
    assert (fact.program_hash, fact.skeleton, fact.origin, fact.step) == ("p2", "s", "", 2)
    assert store.proposal_of(making.candidate(2).id) == made
    assert store.verify() == []


def test_every_kind_of_fact_comes_back_in_order(store, path):
    result(store, 1)
    no_candidate = NoCandidate(
        2, "rewrite", "main", 1, "nothing left", parents=(making.candidate(1).id,), usage=Usage("m", 1, 2, 0.5)
    )
    assert store.record_no_candidate(no_candidate) == 2
    final = good(1, budget=Fidelity.FINAL)
    assert store.add_evaluation(final) == 3
    Store.inbox_put(path, "hint", {"text": "try 8×8"}, author="me")
    (entry,) = store.take_inbox()
    assert store.take_inbox() == []
    store.edit_config([("budget.seconds", 60, 120)], config="{}")
    store.session_start()
    assert store.session_end("enough") == 6
    facts = list(store.facts())
    assert [type(fact) for fact in facts] == [
        ResultEntry,
        EmptyStep,
        EvaluationEntry,
        InboxEntry,
        ConfigEntry,
        StopEntry,
    ]
    assert [fact.seq for fact in facts] == [1, 2, 3, 4, 5, 6]
    assert (facts[1].no_candidate, facts[2].evaluation, facts[3], facts[4].new) == (no_candidate, final, entry, 120)
    assert (entry.payload, entry.author, facts[5].reason) == ({"text": "try 8×8"}, "me", "enough")
    assert store.verify() == []


def test_a_stored_evaluation_is_used_again_only_under_an_equal_key(store):
    seq = result(store, 1)
    found = store.find_evaluation(key(1))
    assert found is not None
    assert (found.seq, found.evaluation) == (seq, good(1))
    for changed in ({"environment": "gcc 13"}, {"task_hash": "t1"}, {"budget": Fidelity.PRECISE}):
        assert store.find_evaluation(key(1, **changed)) is None
    store.propose(proposal(2, "twin"), program_hash="p1", skeleton="s")
    assert store.commit(2, found.evaluation, reused_from=found.seq) == 2
    fact = list(store.facts())[-1]
    assert (fact.reused, fact.evaluation_seq, fact.evaluation) == (True, 1, good(1))
    assert len(store.evaluations_of("p1")) == 1


def test_our_own_faults_are_never_used_again(store):
    propose(store, 1)
    store.commit(1, bad(1, Status.HARNESS_ERROR))
    assert store.find_evaluation(key(1)) is None
    store.add_evaluation(good(1, 0.5))
    assert store.best()[0].candidate.candidate == making.candidate(1)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: propose(store, 1),
        lambda store: store.record_no_candidate(NoCandidate(1, "tune", "main", 0)),
        lambda store: propose(store, 9, parents=("0123456789abcdef",)),
        lambda store: store.commit(1, good(1)),
        lambda store: store.commit(5, good(5)),
        lambda store: store.commit(2, good(1)),
        lambda store: store.commit(2, good(2), reused_from=77),
        lambda store: store.add_evaluation(good("unknown")),
        lambda store: store.candidate("ffff"),
        lambda store: store.candidate("no id"),
        lambda store: store.candidate(""),
        lambda store: store.heartbeat(1.0),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(store, act):
    result(store, 1)
    propose(store, 2)
    before = list(store.facts()), store.open_leases(), store.next_step()
    with pytest.raises(StoreError):
        act(store)
    assert (list(store.facts()), store.open_leases(), store.next_step()) == before
    assert store.verify() == []


def test_work_in_flight_is_there_after_reopening(path):
    with Store.open(path, write=True) as store:
        store.session_start()
        result(store, 1)
        made = propose(store, 2, parents=(making.candidate(1).id,), inspirations=(making.candidate(1).id,))
        propose(store, 5)
    with Store.open(path, write=True) as store:
        session = store.session_start()
        assert store.open_leases()[0] == made
        assert [lease.step for lease in store.open_leases()] == [2, 5]
        assert {row["owner"] for row in store.database.rows("SELECT owner FROM leases")} == {session}
        assert (store.missing_steps(), store.next_step()) == ([3, 4], 6)
        store.commit(2, good(2))
        assert [lease.step for lease in store.open_leases()] == [5]


def test_steps_of_a_new_store(store):
    assert (store.next_step(), store.missing_steps(), store.last_seq()) == (1, [], 0)
    propose(store, 4)
    assert (store.next_step(), store.missing_steps()) == (5, [1, 2, 3])


def test_spending_adds_up_over_sessions(path):
    with Store.open(path, write=True) as store:
        store.session_start()
        propose(store, 1, usage=Usage("model", 10, 20, 0.25, 1.0))
        store.commit(1, good(1))
        store.heartbeat(7.0)  # and is killed
    with Store.open(path, write=True) as store:
        store.session_start()
        store.record_no_candidate(
            NoCandidate(2, "llm", "main", 1, "no code in the reply", usage=Usage("model", cost_usd=0.5))
        )
        store.heartbeat(5.0)
        store.heartbeat(4.0)
        store.session_end("done", seconds=6.0)
        spent = store.spent()
    assert (spent.seconds, spent.cost_usd, spent.evaluations, spent.steps) == (13.0, 0.75, 1, 2)


def test_a_different_run_is_refused_by_field(store):
    store.begin_run(IDENTITY)
    store.begin_run(IDENTITY)
    assert store.identity() == IDENTITY
    run = store.meta("run_id")
    other = replace(IDENTITY, seed=8, task_hash="t1", task_spec={"precision": {"slack": 8.0}, "name": "gemm"})
    with pytest.raises(RunMismatch) as caught:
        store.begin_run(other)
    message = str(caught.value)
    for part in ("seed: 7 -> 8", "task.precision.slack: 4.0 -> 8.0", "--fresh", "fork"):
        assert part in message
    assert "language" not in message
    store.begin_run(replace(IDENTITY, environment="gcc 13"))
    edit = list(store.facts())[-1]
    assert (edit.key, edit.old, edit.new) == ("environment", "gcc 12", "gcc 13")
    assert store.meta("run_id") == run


def test_candidates_are_found_by_a_beginning_of_their_id(store):
    for step in range(1, 40):
        result(store, step)
    one = making.candidate(1)
    assert store.candidate(one.id[:10].upper()).candidate == one
    first = {making.candidate(step).id[0] for step in range(1, 40)}
    crowded = next(d for d in first if sum(making.candidate(s).id[0] == d for s in range(1, 40)) > 1)
    with pytest.raises(StoreError, match="more digits"):
        store.candidate(crowded)
    assert len(store.siblings("s")) == 39


def test_the_best_are_those_of_highest_fitness(store):
    store.begin_run(IDENTITY)
    for step, speed in enumerate([0.1, 0.9, 0.5, 0.7, 0.3], 1):
        result(store, step, speed)
    store.add_evaluation(good(2, 0.2, Fidelity.PRECISE))  # luck, taken back
    store.add_evaluation(bad(4, Status.HOLDOUT_FAILED, Fidelity.FINAL))  # disqualified
    store.add_evaluation(good(1, 3.0, task_hash="another task"))
    ranked = store.best(10)
    assert [item.candidate.born for item in ranked] == [3, 5, 2, 1]
    assert ranked[0].fitness == fitness_of([good(3, 0.5)])
    assert [item.candidate.born for item in store.best(1)] == [3]
    assert [(point.seq, point.candidate) for point in store.curve()] == [
        (1, making.candidate(1).id),
        (2, making.candidate(2).id),
        (6, making.candidate(4).id),
        (7, making.candidate(3).id),
    ]


def test_counts(store):
    result(store, 1)
    propose(store, 2, operator="blend", island="b")
    store.commit(2, bad(2))
    propose(store, 3)
    store.record_no_candidate(NoCandidate(4, "graft", "main", 2))
    counts = store.counts()
    assert counts.by_status == {"numerical": 1, "ok": 1}
    assert (counts.insights, counts.in_flight) == (0, 1)
    outcomes = outcomes_by_operator(store)
    assert {name: each.results for name, each in outcomes.items() if each.results} == {"blend": 1, "tune": 1}
    assert outcomes["graft"].barren == 1


def test_texts_are_stored_once(store):
    digest = store.put_text("a reply")
    assert (store.put_text("a reply"), store.text(digest), store.text("none")) == (digest, "a reply", None)
    assert store.database.number("SELECT count(*) FROM texts") == 1


def test_a_lone_surrogate_is_spelled_out(store):
    propose(store, 1, rationale="bad \udc80 byte")
    assert store.open_leases()[0].rationale == "bad \\udc80 byte"


def test_reading_sees_facts_while_the_engine_writes(store, path):
    result(store, 1)
    with Store.open(path, write=False) as reader:
        assert len(list(reader.facts())) == 1
        result(store, 2)
        assert [fact.seq for fact in reader.facts(after=1)] == [2]
        with pytest.raises(StoreError, match="read-only"):
            result(reader, 3)


def test_facts_may_be_written_while_they_are_read(store):
    for step in range(1, 4):
        result(store, step)
    seen = []
    for fact in store.facts():
        seen.append(fact.seq)
        if len(seen) < 3:
            store.add_evaluation(good(fact.step, budget=Fidelity.PRECISE))
    assert seen == [1, 2, 3, 4, 5]


def test_a_closed_store_says_so(path):
    with Store.open(path, write=True) as store:
        pass
    with pytest.raises(StoreError, match="closed"):
        store.next_step()


def test_set_aside_moves_the_file_with_its_log(path):
    assert set_aside(path) is None
    moved = []
    for _ in range(2):
        with Store.open(path, write=True) as store:
            result(store, 1)
        with Store.open(path, write=False):  # a reader keeps a log alive
            moved.append(set_aside(path))
        assert not path.exists()
    assert len(set(moved)) == 2
    for target in moved:
        assert target is not None
        with Store.open(target, write=False) as store:
            assert len(list(store.facts())) == 1
    path.write_bytes(b"SQLite format 3\0 and rubbish" * 100)
    with pytest.raises(StoreCorrupt, match="--fresh"):
        Store.open(path, write=True)
    assert set_aside(path).read_bytes().endswith(b"rubbish")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("DELETE FROM results WHERE seq = 2", "fact 2 has no content"),
        ("DELETE FROM journal WHERE seq = 2", "skips from fact 2"),
        ("DELETE FROM leases", "step 4 has neither"),
        ("INSERT INTO leases VALUES (1, NULL, 0, x'')", "step 1 has a result and a lease"),
        ("UPDATE results SET evaluation = 1 WHERE step = 2", "another program"),
        ("UPDATE results SET evaluation = 3 WHERE step = 2", "came later"),
        ("UPDATE results SET evaluation = NULL WHERE step = 2", "no evaluation"),
        ("UPDATE candidates SET born = 3 WHERE born = 2", "born"),
        ("DELETE FROM texts WHERE rowid = 1", "missing row of texts"),
        ("UPDATE texts SET body = x'00' WHERE rowid = 1", "cannot be unpacked"),
        (f"UPDATE texts SET body = x'28b52ffde0{(1 << 50).to_bytes(8, 'little').hex()}010000'", "cannot be unpacked"),
        ("UPDATE texts SET body = (SELECT body FROM texts WHERE rowid = 2) WHERE rowid = 1", "not what its hash says"),
        ("UPDATE candidates SET language = 'cuda' WHERE born = 2", "not what its id says"),
    ],
)
def test_verify_finds(path, damage, complaint):
    with Store.open(path, write=True) as store:
        for step in range(1, 4):
            result(store, step)
        propose(store, 4)
        assert store.verify() == []
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with Store.open(path, write=False) as store:
        assert any(complaint in line for line in store.verify()), store.verify()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE evaluations SET status = 'splendid'",
        "UPDATE evaluations SET timings = 'x'",
        "UPDATE evaluations SET timings = '[{}]'",
        "UPDATE evaluations SET panel = '[]'",
        "UPDATE texts SET body = x'1234'",
        "DELETE FROM results",
        "DELETE FROM evaluations",
    ],
)
def test_rows_that_cannot_be_read_are_named(path, damage):
    with Store.open(path, write=True) as store:
        result(store, 1)
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with Store.open(path, write=False) as store, pytest.raises(StoreCorrupt):
        list(store.facts())

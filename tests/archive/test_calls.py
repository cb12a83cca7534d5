"""The record of calls: what comes back, what counts, what a kill leaves."""

import random
import sqlite3
import time
from dataclasses import replace

import pytest

from archive.calls import Calls
from archive.fork import fork
from archive.store import NoCandidate, Store
from evokernel.errors import StoreCorrupt, StoreError
from evokernel.protocols import CallLog
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, Message, ModelCallResult, Origin, Spending
from tests.archive.records import candidate, ended, good, make_call, propose, result
from tests.archive.test_processes import start

WRITER = """
    import sys
    from tests.archive.records import ended, make_call
    from archive.store import Store
    with Store.open(sys.argv[1], write=True) as store:
        store.session_start()
        for step in range(store.next_step(), 10**9):
            number = store.calls.begin(make_call(step))
            print("b", number, flush=True)
            store.calls.end(number, ended(f"reply {number}"))
            print("e", number, flush=True)
"""


def test_a_call_comes_back_as_it_was(store):
    log: CallLog = store.calls
    call = replace(
        make_call(7, ordinal=2, sample=3, parents=(candidate(1).id,), insights=(4, 9)),
        messages=(Message("system", "be brief"), Message("user", "ü\0\udc80 日本")),
        parameters={"temperature": 0.7, "stop": ["a"], "nested": {"x": None}},
    )
    number = log.begin(call)
    (open_one,) = store.calls.all()
    assert (open_one.number, open_one.call, open_one.result) == (number, call, None)
    outcome = ModelCallResult(CallStatus.TRUNCATED, "half a re", Usage("snapshot-7", 10, 20, 0.25, 1.5))
    log.end(number, outcome)
    (closed,) = store.calls.all()
    assert (closed.call, closed.result) == (call, outcome)
    assert store.calls.call(number) == closed == log.of_step(7, 2) == log.find(call.key, 3)
    assert store.calls.call(number + 1) is None
    assert store.verify() == []


def test_only_usable_replies_are_found(store):
    log = store.calls
    for status in (CallStatus.EMPTY, CallStatus.REFUSED, CallStatus.FAILED):
        log.end(log.begin(make_call(1)), ended(status=status))
    log.begin(make_call(1))
    key = make_call(1).key
    assert (log.of_step(1, 0), log.find(key, 0), log.interrupted()) == (None, None, [])
    first = log.begin(make_call(1))
    log.end(first, ended("first"))
    second = log.begin(make_call(1))
    log.end(second, ended("second", status=CallStatus.TRUNCATED))
    assert log.of_step(1, 0).number == second
    assert log.find(key, 0).number == first
    assert (log.of_step(1, 1), log.of_step(2, 0), log.find(key, 1)) == (None, None, None)


def test_samples_are_counted_once_each(store):
    key = make_call(1).key
    assert store.calls.samples(key) == 0
    for step, sample in ((1, 0), (1, 0), (2, 1), (3, 4)):
        store.calls.begin(make_call(step, sample=sample))
    assert (store.calls.samples(key), store.calls.samples("other")) == (3, 0)


def test_a_call_ends_once(store):
    number = store.calls.begin(make_call(1))
    with pytest.raises(StoreError, match="stay open"):
        store.calls.end(number, ended(status=CallStatus.OPEN))
    store.calls.end(number, ended("said"))
    for wrong in (number, number + 1):
        with pytest.raises(StoreError, match="not open"):
            store.calls.end(wrong, ended("said later"))
    assert store.calls.call(number).result.text == "said"
    assert store.database.number("SELECT count(*) FROM texts") == 2  # the prompt and the reply
    assert store.verify() == []


def test_open_calls_count_with_what_was_reserved(path):
    with Store.open(path, write=True) as store:
        store.session_start()
        assert store.calls.spending() == Spending()
        store.calls.begin(make_call(1, reserved_tokens=1000, reserved_usd=0.5))
        number = store.calls.begin(make_call(2, reserved_tokens=1000, reserved_usd=0.5))
        assert store.calls.spending() == Spending(2, 2000, 1.0)
        store.calls.end(number, ended("x", tokens=(30, 10), cost_usd=0.125))
        assert store.calls.spending() == Spending(2, 1040, 0.625)
    with Store.open(path, write=True) as store:  # the engine was killed: nobody knows whether the first was charged
        store.session_start()
        assert store.calls.spending() == Spending(2, 1040, 0.625)
        spent = store.spent()
        assert (spent.calls, spent.tokens, spent.cost_usd) == (2, 1040, 0.625)
        assert [row[0] for row in store.database.rows("SELECT session FROM calls ORDER BY number")] == [1, 1]


def test_a_step_is_charged_once(store):
    store.calls.end(store.calls.begin(make_call(1)), ended("x", tokens=(3, 1), cost_usd=0.25))
    propose(store, 1, usage=Usage("m", 3, 1, 0.25))
    store.record_no_candidate(NoCandidate(2, "mutate", "main", 0, "unusable: no code", usage=Usage("m", 5, 2, 0.5)))
    propose(store, 3, usage=Usage("free", 7, 1))
    spent = store.spent()
    assert (spent.calls, spent.tokens, spent.cost_usd) == (1, 4 + 7 + 8, 0.75)


def test_steps_with_a_reply_and_nothing_made_of_it_are_taken_up_again(path):
    with Store.open(path, write=True) as store:
        result(store, 1)
        for step, status in ((2, CallStatus.OK), (3, CallStatus.FAILED), (5, CallStatus.OK), (6, CallStatus.OK)):
            store.calls.end(store.calls.begin(make_call(step, operator="old")), ended(status=status))
        again = make_call(5, ordinal=1, operator="mutate", parents=(candidate(1).id,), insights=(8,))
        store.calls.end(store.calls.begin(again), ended(status=CallStatus.TRUNCATED))
        store.calls.begin(make_call(7))
        propose(store, 6)
    with Store.open(path, write=True) as store:
        assert store.calls.interrupted() == [Origin(2, "main", "old"), again.origin]
        assert (store.missing_steps(), store.next_step()) == ([2, 3, 4, 5, 7], 8)
        store.record_no_candidate(NoCandidate(5, "mutate", "main", 1, "unusable: no code", exhausted=False))
        assert [origin.step for origin in store.calls.interrupted()] == [2]


def test_answers_from_elsewhere_are_known_by_their_entry(store):
    def answer(entry, status):
        call = replace(make_call(1), parameters={"answer": entry, "x": float("nan")})
        number = store.calls.begin(call)
        if status is not None:
            store.calls.end(number, ended(status=status))

    answer(3, CallStatus.OK)
    answer(4, CallStatus.TRUNCATED)
    answer(5, None)
    answer(6, CallStatus.FAILED)
    answer("7", CallStatus.OK)
    store.calls.end(store.calls.begin(replace(make_call(2), parameters={"style": '"answer"'})), ended())
    assert store.calls.answers() == {3, 4}


def test_equal_prompts_are_stored_once(store):
    for step in range(1, 20):
        store.calls.begin(make_call(step))
    assert store.database.number("SELECT count(*) FROM texts") == 1


def test_all_calls_come_in_order_however_many(store):
    numbers = [store.calls.begin(make_call(step)) for step in range(450)]
    assert [stored.number for stored in store.calls.all()] == numbers
    assert [stored.call.origin.step for stored in store.calls.all()] == list(range(450))


def test_an_older_store_can_be_asked_without_its_lock(store, path):
    store.calls.end(store.calls.begin(make_call(1)), ended("said"))
    with Store.open(path, write=False) as reader:
        assert reader.calls.find(make_call(1).key, 0).result.text == "said"
        with pytest.raises(StoreError, match="read-only"):
            reader.calls.begin(make_call(2))


def test_calls_stay_behind_in_a_fork(path, tmp_path):
    with Store.open(path, write=True) as store:
        store.calls.end(store.calls.begin(make_call(1)), ended("x", cost_usd=0.5))
        result(store, 1, usage=Usage("m", 1, 1, 0.5))
    fork(path, tmp_path / "new.db", candidate=candidate(1).id)
    with Store.open(tmp_path / "new.db", write=True) as new:
        assert (list(new.calls.all()), new.spent().calls, new.spent().cost_usd) == ([], 0, 0.0)
        assert new.proposal_of(candidate(1).id).usage.cost_usd == 0.5
        assert new.verify() == []


@pytest.mark.heavy
def test_no_acknowledged_call_is_lost_when_the_writer_is_killed(path):
    rng = random.Random(5)
    begun, told = set[int](), set[int]()
    for _ in range(6):
        with start(WRITER, path) as writer:
            lines = [writer.stdout.readline() for _ in range(rng.randint(10, 40))]  # however slow the machine is
            time.sleep(rng.uniform(0.0, 0.05))
            writer.kill()
            for line in (*lines, *writer.stdout.read().splitlines()):
                match line.split():  # the last line may be torn
                    case [kind, number] if number.isdigit():
                        (begun if kind == "b" else told).add(int(number))
        with Store.open(path, write=True) as store:
            assert store.verify() == []
            calls = {stored.number: stored for stored in store.calls.all()}
            assert begun <= calls.keys()
            ended_ones = {number for number, stored in calls.items() if stored.result is not None}
            assert told <= ended_ones
            assert all(calls[number].result.text == f"reply {number}" for number in ended_ones)
            lost = len(calls) - len(ended_ones)
            assert lost <= 6
            each = make_call(0)
            expected = len(ended_ones) * 3 + lost * each.reserved_tokens
            assert store.calls.spending().tokens == expected
            assert {origin.step for origin in store.calls.interrupted()} == {
                calls[number].call.origin.step for number in ended_ones
            }
    assert len(told) > 20


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("UPDATE calls SET reply = NULL", "without a reply"),
        ("UPDATE calls SET status = 'open'", "open with one"),
        ("UPDATE calls SET status = 'splendid'", "cannot be read"),
        ("UPDATE calls SET insights = '{}'", "cannot be read"),
        ("UPDATE calls SET prompt = 'x'", "missing row of texts"),
    ],
)
def test_verify_finds_damaged_calls(path, damage, complaint):
    with Store.open(path, write=True) as store:
        store.calls.end(store.calls.begin(make_call(1)), ended("x"))
        assert store.verify() == []
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with Store.open(path, write=False) as store:
        assert any(complaint in line for line in store.verify()), store.verify()


def test_a_call_that_cannot_be_read_is_named(store):
    number = store.calls.begin(make_call(1))
    store.database.execute("UPDATE calls SET parents = '5'")
    with pytest.raises(StoreCorrupt, match=f"a call \\({number}\\)"):
        list(Calls(store.database).all())


def test_a_reply_that_came_while_the_proposal_waits_is_not_interrupted(store):
    store.calls.end(store.calls.begin(make_call(1)), ended("x"))
    propose(store, 1)
    assert store.calls.interrupted() == []
    store.commit(1, good(1))
    assert store.calls.interrupted() == []


def test_only_money_waits_for_the_disk_and_only_where_asked(store):
    def level() -> int:
        return int(store.database.number("PRAGMA synchronous"))

    normal, full = 1, 2
    for power_safe, inside in ((False, normal), (True, full)):
        store.database.power_safe = power_safe
        with store.database.money_transaction():
            assert level() == inside
        number = store.calls.begin(make_call(step=int(power_safe)))
        store.calls.end(number, ended())
        assert level() == normal
    with pytest.raises(ZeroDivisionError), store.database.money_transaction():
        raise ZeroDivisionError
    assert level() == normal
    assert store.calls.spending().calls == 2

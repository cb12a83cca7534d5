"""Insights: facts that a step leaves in place of a candidate."""

import sqlite3

import pytest

from archive.fork import fork
from archive.journal import EmptyStep, InsightEntry, ResultEntry
from archive.store import NoCandidate, Store
from archive.views.effort import outcomes_by_operator
from evokernel.errors import StoreCorrupt, StoreError
from evokernel.records.candidate import Usage
from evokernel.records.llm import Insight, InsightKind
from tests.archive.records import candidate, good, proposal, propose, result

PLAN = Insight(InsightKind.STRATEGY, "pack b", "1. Pack B\n2. ü", predicted_speedup=1.4)


@pytest.fixture
def filled(path):
    """A store with a seed, a strategy, a barren and an unusable step, a diagnosis, and what was made with both."""
    parent = candidate(1).id
    with Store.open(path, write=True) as store:
        result(store, 1)
        store.record_insight(NoCandidate(2, "plan", "main", 1, parents=(parent,), usage=Usage("m", 1, 2, 0.5)), PLAN)
        store.record_no_candidate(NoCandidate(3, "rewrite", "main", 2, "nothing left"))
        store.record_no_candidate(NoCandidate(4, "mutate", "main", 2, "unusable: no code", exhausted=False))
        diagnosis = Insight(InsightKind.DIAGNOSIS, "spills", "It spills.", parent, sources=(2,))
        store.record_insight(NoCandidate(5, "diagnose", "main", 4, parents=(parent,)), diagnosis)
        result(store, 6, 0.5, parents=(parent,), insights=(5, 2))
    return path


def test_facts_come_back_in_order(filled):
    with Store.open(filled, write=False) as store:
        facts = list(store.facts())
        assert store.verify() == []
        assert store.missing_steps() == []
        assert (store.insight(2), store.insight(3)) == (PLAN, None)
    assert [type(fact) for fact in facts] == [
        ResultEntry,
        InsightEntry,
        EmptyStep,
        EmptyStep,
        InsightEntry,
        ResultEntry,
    ]
    assert [fact.seq for fact in facts] == [fact.step for fact in facts] == [1, 2, 3, 4, 5, 6]
    assert (facts[1].insight, facts[1].no_candidate.usage) == (PLAN, Usage("m", 1, 2, 0.5))
    assert [fact.no_candidate.exhausted for fact in facts[2:4]] == [True, False]
    assert (facts[4].insight.sources, facts[4].insight.candidate) == ((2,), candidate(1).id)
    assert facts[4].no_candidate.parents == (candidate(1).id,)
    assert facts[5].proposal.insights == (5, 2)


def test_an_insight_is_not_counted_as_barren(filled):
    with Store.open(filled, write=False) as store:
        counts, outcomes, spent = store.counts(), outcomes_by_operator(store), store.spent()
    assert {name for name, each in outcomes.items() if each.barren or each.unusable} == {"mutate", "rewrite"}
    assert {name: each.insights for name, each in outcomes.items() if each.insights} == {"diagnose": 1, "plan": 1}
    assert (counts.insights, outcomes["tune"].results) == (2, 2)
    assert (spent.steps, spent.evaluations, spent.cost_usd, spent.tokens) == (6, 2, 0.5, 3)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.record_insight(NoCandidate(1, "plan", "main", 0), PLAN),
        lambda store: store.record_insight(
            NoCandidate(9, "plan", "main", 0), Insight(InsightKind.LESSON, "", "", "0123456789abcdef")
        ),
        lambda store: store.record_insight(
            NoCandidate(9, "plan", "main", 0), Insight(InsightKind.LESSON, "", "", sources=(1,))
        ),
        lambda store: store.record_insight(NoCandidate(9, "plan", "main", 0, parents=("0123456789abcdef",)), PLAN),
        lambda store: store.propose(proposal(9, insights=(3,)), program_hash="p", skeleton="s"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(filled, act):
    with Store.open(filled, write=True) as store:
        before = list(store.facts()), store.open_leases(), store.next_step()
        with pytest.raises(StoreError):
            act(store)
        assert (list(store.facts()), store.open_leases(), store.next_step()) == before
        assert store.verify() == []


def test_a_proposal_in_flight_keeps_its_insights(filled):
    with Store.open(filled, write=True) as store:
        made = propose(store, 7, insights=(2,))
    with Store.open(filled, write=True) as store:
        assert store.open_leases() == [made]
        store.commit(7, good(7))
        assert store.proposal_of(made.candidate.id).insights == (2,)


def test_an_insight_that_was_handed_in_goes_by_its_seq(filled):
    with Store.open(filled, write=True) as store:
        for payload in (
            {"kind": "strategy", "title": "tile", "text": "Tile it.", "predicted_speedup": 2},
            {"kind": "gossip"},
            "no object",
        ):
            store.inbox_put(filled, "insight", payload)
        store.inbox_put(filled, "hint", {"kind": "strategy"})
        seqs = [entry.seq for entry in store.take_inbox()]
        found = [store.insight(seq) for seq in seqs]
        assert found == [Insight(InsightKind.STRATEGY, "tile", "Tile it.", predicted_speedup=2), None, None, None]
        propose(store, 7, insights=(seqs[0], 2))
        with pytest.raises(StoreError, match="as an insight"):
            propose(store, 8, insights=(seqs[3],))
        assert store.verify() == []


def test_insights_stay_behind_in_a_fork(filled, tmp_path):
    fork(filled, tmp_path / "new.db", candidate=candidate(6).id)
    with Store.open(tmp_path / "new.db", write=True) as new:
        assert [type(fact) for fact in new.facts()] == [ResultEntry, ResultEntry]
        assert new.proposal_of(candidate(6).id).insights == ()
        assert new.counts().insights == 0
        assert new.verify() == []


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("DELETE FROM insights WHERE seq = 2", "fact 2 has no content"),
        ("DELETE FROM insights WHERE seq = 2", "step 6 was made with insights"),
        ("UPDATE insights SET step = 3 WHERE seq = 2", "fact 2 has no content"),
        ("UPDATE journal SET kind = 'barren' WHERE seq = 2", "insight 2 is not what the journal says"),
        ("UPDATE proposals SET insights = '[3]' WHERE step = 6", "step 6 was made with insights"),
        ("UPDATE proposals SET insights = 'x' WHERE step = 6", "step 6 was made with insights"),
    ],
)
def test_verify_finds(filled, damage, complaint):
    with sqlite3.connect(filled) as connection:
        connection.execute(damage)
    connection.close()
    with Store.open(filled, write=False) as store:
        assert any(complaint in line for line in store.verify()), store.verify()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE insights SET kind = 'gossip'",
        "UPDATE insights SET sources = '[1.5]'",
        "UPDATE proposals SET insights = '{}'",
        "UPDATE proposals SET insights = '[true]'",
    ],
)
def test_rows_that_cannot_be_read_are_named(filled, damage):
    with sqlite3.connect(filled) as connection:
        connection.execute(damage)
    connection.close()
    with Store.open(filled, write=False) as store, pytest.raises(StoreCorrupt):
        list(store.facts())

import contextlib
import sqlite3
from pathlib import Path

import pytest

from archive.file import file_version
from archive.file.database import connect
from archive.file.migrations import STEPS
from archive.journal import ConfigEntry, EmptyStep, EvaluationEntry, InboxEntry, ResultEntry, StopEntry
from archive.store import NoCandidate, Store
from evokernel.errors import SchemaTooNew, StoreCorrupt, StoreError
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Fidelity
from evokernel.records.llm import Insight, InsightKind
from tests.archive.records import IDENTITY, candidate, good, propose, result

FIRST = Path(__file__).with_name("v1.sql")
"""A store as the release with schema 1 wrote it, dumped by SQLite: facts of every kind, one step in flight."""


def further(database):
    database.execute("ALTER TABLE proposals ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")
    database.execute("CREATE TABLE extra(x INTEGER)")


def failing(database):
    further(database)
    database.execute("INSERT INTO no_such_table VALUES (1)")


def version(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


@pytest.fixture
def old(path):
    with Store.open(path, write=True) as store:
        result(store, 1)
    return path


def upgrade(path, *steps):
    database = connect(path, write=True)
    try:
        file_version.upgrade(database, (*STEPS, *steps))
    finally:
        database.close()


def shape(path):
    """Return all tables and indexes but those of a library that made the first files, as they were spelled."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE tbl_name <> '_sqlite_migrations'")
        return dict(rows.fetchall())


@pytest.fixture
def first(path):
    """A file of schema 1 that a run wrote."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST.read_text())
    return path


def check_first(store):
    """Check that everything the old run wrote is there, and means what it meant."""
    assert store.verify() == []
    assert store.identity() == IDENTITY
    facts = list(store.facts())
    assert [type(fact) for fact in facts] == [
        ResultEntry,
        EmptyStep,
        ResultEntry,
        EvaluationEntry,
        InboxEntry,
        ConfigEntry,
        StopEntry,
    ]
    parent = candidate(1).id
    assert facts[1].no_candidate == NoCandidate(
        2, "rewrite", "main", 1, "nothing left", (parent,), usage=Usage("m", 1, 2, 0.5)
    )
    made = facts[2].proposal
    assert (made.candidate, made.parents, made.inspirations) == (candidate(3), (parent,), (parent,))
    assert (made.rationale, made.predicted_speedup, made.insights) == ("unroll", 1.5, ())
    assert made.usage == Usage("m", 100, 20, 0.25, 1.5)
    assert facts[3].evaluation == good(3, 0.4, Fidelity.PRECISE)
    assert [lease.step for lease in store.open_leases()] == [5]
    assert (store.missing_steps(), store.next_step()) == ([4], 6)
    spent = store.spent()
    assert (spent.seconds, spent.cost_usd, spent.tokens, spent.calls) == (9.0, 0.75, 123, 0)
    assert (spent.evaluations, spent.steps) == (3, 3)


def test_a_new_file_has_the_current_version(old):
    assert version(old) == file_version.VERSION == 4


def test_the_first_step_makes_the_tables_that_the_first_release_made(first, tmp_path):
    made = tmp_path / "made.db"
    database = connect(made, write=True, create=True)
    file_version.upgrade(database, STEPS[:1])
    database.close()
    assert version(made) == version(first) == 1
    assert shape(made) == shape(first)


def test_a_file_of_the_first_release_is_read_in_memory(first):
    before = first.read_bytes()
    with Store.open(first, write=False) as store:
        check_first(store)
        assert list(store.calls.all()) == []
        with pytest.raises(StoreError, match="read-only"):
            store.set_meta("a", "b")
    assert first.read_bytes() == before
    with pytest.raises(StoreError, match="old schema"):
        Store.inbox_put(first, "hint", {})


def test_a_file_of_the_first_release_is_brought_up_to_date_and_goes_on(first, tmp_path):
    with Store.open(first, write=True) as store:
        check_first(store)
        store.session_start()
        (waiting,) = store.take_inbox()
        assert waiting.payload == {"source": "void run() {}"}
        insight = Insight(InsightKind.LESSON, "wide tiles", "Wide tiles win.", candidate(3).id)
        seq = store.record_insight(NoCandidate(4, "reflect", "main", store.last_seq()), insight)
        propose(store, 6, insights=(seq,))
        store.commit(6, good(6))
        store.commit(5, good(5))
        assert store.verify() == []
    assert version(first) == file_version.VERSION
    with Store.open(tmp_path / "new.db", write=True):
        pass
    assert set(shape(first)) == set(shape(tmp_path / "new.db"))


def test_an_old_file_is_brought_up_to_date_with_its_rows(old):
    upgrade(old, further)
    upgrade(old, further)
    assert version(old) == file_version.VERSION + 1
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT step, mood FROM proposals").fetchall() == [(1, "calm")]
    connection.close()


def test_a_failed_upgrade_leaves_the_file_as_it_was(old):
    with pytest.raises(StoreError, match="no_such_table"):
        upgrade(old, failing)
    assert version(old) == file_version.VERSION
    with Store.open(old, write=False) as store:
        assert store.verify() == []
        assert len(list(store.facts())) == 1


@pytest.mark.parametrize("write", [True, False])
def test_a_newer_file_is_refused_untouched(old, write):
    upgrade(old, further)
    before = old.read_bytes()
    with pytest.raises(SchemaTooNew, match="install"):
        Store.open(old, write=write)
    with pytest.raises(SchemaTooNew):
        Store.inbox_put(old, "hint", {})
    assert old.read_bytes() == before


@pytest.mark.parametrize("write", [True, False])
def test_a_database_of_something_else_is_refused_untouched(path, write):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE holidays(day TEXT)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a store"):
        Store.open(path, write=write)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with Store.open(path, write=True) as store:
        assert store.verify() == []

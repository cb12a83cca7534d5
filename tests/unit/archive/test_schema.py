import sqlite3

import pytest
from making import result

from archive import schema
from archive.database import connect
from archive.migrations import STEPS
from archive.store import Store
from evokernel.errors import SchemaTooNew, StoreCorrupt, StoreError


def second(database):
    database.execute("ALTER TABLE proposals ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")
    database.execute("CREATE TABLE extra(x INTEGER)")


def failing(database):
    second(database)
    database.execute("INSERT INTO no_such_table VALUES (1)")


def version(path):
    connection = sqlite3.connect(path)
    try:
        applied = [row[0] for row in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        return connection.execute("PRAGMA user_version").fetchone()[0], applied
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
        schema.upgrade(database, (*STEPS, *steps))
    finally:
        database.close()


def test_a_new_file_has_the_current_version(old):
    assert version(old) == (schema.VERSION, ["v1_first"]) == (len(STEPS), ["v1_first"])


def test_an_old_file_is_brought_up_to_date_with_its_rows(old):
    upgrade(old, second)
    upgrade(old, second)
    assert version(old) == (2, ["v1_first", "second"])
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT step, mood FROM proposals").fetchall() == [(1, "calm")]
    connection.close()


def test_a_failed_upgrade_leaves_the_file_as_it_was(old):
    with pytest.raises(StoreError, match="no_such_table"):
        upgrade(old, failing)
    assert version(old) == (1, ["v1_first"])
    with Store.open(old, write=False) as store:
        assert store.verify() == []
        assert len(list(store.facts())) == 1


def test_reading_an_old_file_leaves_it_as_it_is(old, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr("archive.migrations.STEPS", (*STEPS, second))
    with Store.open(old, write=False) as store:
        assert store.database.number("SELECT count(*) FROM extra") == 0
        assert len(list(store.facts())) == 1
        with pytest.raises(StoreError, match="read-only"):
            store.set_meta("a", "b")
    assert version(old) == (1, ["v1_first"])
    with pytest.raises(StoreError, match="old schema"):
        Store.inbox_put(old, "hint", {})
    with Store.open(old, write=True):
        pass
    assert version(old)[0] == 2


@pytest.mark.parametrize("write", [True, False])
def test_a_newer_file_is_refused_untouched(old, write):
    upgrade(old, second)
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

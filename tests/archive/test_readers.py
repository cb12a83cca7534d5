"""What readers leave beside a store: nothing, unless somebody still needs it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from archive.store import Store
from tests.archive.records import good, propose


def beside(path: Path) -> set[str]:
    return {each.name.removeprefix(path.name) for each in path.parent.iterdir() if each.name.startswith(path.name)}


@pytest.fixture
def stored(path: Path) -> Path:
    with Store.open(path, write=True) as store:
        propose(store, 0)
        store.commit(0, good(0))
    return path


def test_a_store_that_was_only_read_has_no_log_beside_it(stored: Path) -> None:
    before = beside(stored)
    with Store.open(stored, write=False) as store:
        assert len(list(store.facts())) == 1
        assert "-shm" in beside(stored)
    assert beside(stored) == before == {"", ".lock"}


def test_the_empty_log_that_another_reader_has_left_is_removed_too(stored: Path) -> None:
    with closing(sqlite3.connect(f"file:{stored}?mode=ro", uri=True)) as other:
        other.execute("SELECT count(*) FROM meta").fetchone()
    assert {"-wal", "-shm"} <= beside(stored)
    with Store.open(stored, write=False) as store:
        assert store.verify() == []
    assert beside(stored) == {"", ".lock"}


def test_readers_that_end_take_nothing_from_a_writer_or_from_other_readers(stored: Path) -> None:
    with Store.open(stored, write=False) as slow:
        with Store.open(stored, write=False):
            pass
        with Store.open(stored, write=True) as writer:
            with Store.open(stored, write=False):
                pass
            for step in range(1, 20):
                propose(writer, step)
                writer.commit(step, good(step))
                with Store.open(stored, write=False) as reader:
                    assert len(list(reader.facts())) == step + 1
                assert len(list(slow.facts())) == step + 1
        assert len(list(slow.facts())) == 20
    with Store.open(stored, write=False) as reader:
        assert len(list(reader.facts())) == 20
        assert reader.verify() == []


def test_a_log_with_results_that_a_killed_process_has_left_stays_as_it_is(stored: Path) -> None:
    with Store.open(stored, write=True) as writer:
        propose(writer, 1)
        writer.commit(1, good(1))
        files = {end: stored.with_name(stored.name + end).read_bytes() for end in ("", "-wal")}
    for end, content in files.items():
        stored.with_name(stored.name + end).write_bytes(content)
    with Store.open(stored, write=False) as reader:
        assert len(list(reader.facts())) == 2
    assert {end: stored.with_name(stored.name + end).read_bytes() for end in files} == files


def test_a_store_that_was_removed_while_it_was_read_does_not_come_back(stored: Path) -> None:
    with Store.open(stored, write=False):
        for each in stored.parent.iterdir():
            each.unlink()
    assert list(stored.parent.iterdir()) == []

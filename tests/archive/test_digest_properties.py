"""Any single cell of a store that is changed by hand is found by `verify`; remarks are outside of all that counts."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.file.chain import FACTS
from archive.file.checksums import CHECKED
from archive.fork import fork
from archive.store import Store
from evokernel.records.candidate import clean
from evokernel.records.evaluation import Status
from evokernel.records.llm import Insight, InsightKind
from evokernel.records.remarks import RemarkKind
from tests.support.stores import StoreBuilder

TABLES = sorted({"journal", "candidates", "proposals", "parents", "texts", *FACTS, *CHECKED})


def fill(path: Path) -> str:
    """Write a store with rows in every table; return the id of a candidate with a parent."""
    with StoreBuilder(path) as builder:
        seed, store = builder.seed(), builder.store
        child = builder.add("// child\n", speedup=2.0, parents=(seed,), inspirations=(seed,))
        builder.add("// broken\n", speedup=None, status=Status.NUMERICAL, parents=(child,))
        builder.final(child, speedup=1.5)
        builder.nothing("nothing left")
        builder.insight(Insight(InsightKind.LESSON, "wide tiles", "Wide tiles win.", seed, 1.5))
        builder.call()
        builder.call(status=None)
        builder.say("hint", {"text": "taken"})
        Store.inbox_put(path, "hint", {"text": "waits"})
        store.edit_config([("budget", 1, 2)], config="{}")
        store.remarks.add(RemarkKind.NOTE, "a remark", step=1, candidate=seed, why="to be changed")
        store.session_end("enough", seconds=7.0)
        store.session_start()
        builder.propose("// in flight\n", parents=(seed,))
        store.heartbeat(3.5)
    return child


@pytest.fixture(scope="module")
def whole() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whole.db"
        fill(path)
        with Store.open(path, write=False) as store:
            assert store.verify() == []
        with closing(sqlite3.connect(path)) as connection:
            assert [table for table in TABLES if not connection.execute(f"SELECT 1 FROM {table}").fetchone()] == []
            yield connection.serialize()


def others(value: object) -> st.SearchStrategy[object]:
    """Return other values for a cell, most of the type that its column takes."""
    found: st.SearchStrategy[object]
    if isinstance(value, str):
        found = st.sampled_from([value + " ", value[:-1], value.swapcase(), ""]) | st.text(st.characters(codec="utf-8"))
    elif isinstance(value, bytes):
        found = st.binary(max_size=40)
    elif isinstance(value, float):
        found = st.sampled_from([value + 1e-3, -value, 0.0]) | st.floats(allow_nan=False)
    elif isinstance(value, int):
        found = st.sampled_from([value + 1, value - 1, -value]) | st.integers(-(2**63), 2**63 - 1)
    else:
        found = st.sampled_from([0, ""])
    return (found | st.none()).filter(lambda other: other != value)


@pytest.mark.heavy
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_changed_cell_is_found(whole: bytes, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        path.write_bytes(whole)
        table = data.draw(st.sampled_from(TABLES))
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            row = data.draw(st.sampled_from(rows))
            column = data.draw(st.sampled_from(row.keys()))
            where = " AND ".join(f"{name} IS ?" for name in row.keys())  # noqa: SIM118
            try:
                changed = connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE {where}", (data.draw(others(row[column])), *row)
                )
            except sqlite3.IntegrityError:
                return  # the file itself refuses it
            assert changed.rowcount == 1
        with Store.open(path, write=False) as store:
            assert store.verify() != []


def test_the_first_changed_fact_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    fill(path)
    with Store.open(path, write=True) as store:
        store.database.execute("UPDATE journal SET at = at + 1 WHERE seq >= 3")
        (said,) = store.verify()
        assert said.startswith("the chain breaks at fact 3: ")
        store.edit_config([("budget", 2, 3)], config="{}")  # facts that come later change nothing about it
        assert store.verify() == [said]


def test_a_changed_row_is_not_made_good_by_the_next_update(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    fill(path)
    with Store.open(path, write=True) as store:
        session = store.session_start()
        store.heartbeat(1.0)
        assert store.verify() == []
        store.database.execute("UPDATE sessions SET started = started - 5 WHERE id = ?", (session,))
        store.heartbeat(2.0)
        assert [line.partition(" is not")[0] for line in store.verify()] == [f"the row {session} of sessions"]


def test_a_fork_has_a_chain_of_its_own(tmp_path: Path) -> None:
    name = fill(tmp_path / "old.db")
    fork(tmp_path / "old.db", tmp_path / "new.db", candidate=name)
    with Store.open(tmp_path / "new.db", write=True) as store:
        assert store.verify() == []
        assert store.remarks.all() == []
        store.edit_config([("budget", 2, 3)], config="{}")
        assert store.verify() == []
        store.database.execute("UPDATE evaluations SET feedback = 'splendid' WHERE seq = 1")
        assert [line for line in store.verify() if "the chain breaks at fact 1" in line]


kinds = st.sampled_from(RemarkKind)
texts = st.text(st.characters(exclude_categories=()), max_size=20)
plans = st.lists(st.tuples(kinds, texts, st.none() | st.integers(0, 99), st.dictionaries(texts, texts, max_size=2)))


@settings(max_examples=25, deadline=None)
@given(
    plan=st.lists(st.tuples(kinds, texts, st.none() | st.integers(0, 99), st.dictionaries(texts, texts, max_size=2)))
)
def test_remarks_come_back_and_change_no_fact(plan: list[tuple[RemarkKind, str, int | None, dict[str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        fill(path)
        with Store.open(path, write=True) as store:
            before, last = list(store.facts()), store.last_seq()
            known = len(store.remarks.all())
            for kind, text, step, why in plan:
                store.remarks.add(kind, text, step=step, why=why)
            found = store.remarks.all(after=known)
            assert [(each.kind, each.text, each.step, each.detail["why"]) for each in found] == [
                (kind, clean(text), step, why) for kind, text, step, why in plan
            ]
            for kind in RemarkKind:
                assert store.remarks.all([kind], after=known) == [each for each in found if each.kind is kind]
            assert (list(store.facts()), store.last_seq()) == (before, last)
            assert store.unchanged_since(last)
            assert store.verify() == []

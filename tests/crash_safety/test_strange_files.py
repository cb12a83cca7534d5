"""What else may lie where a store is expected: each is named for what it is, and none is overwritten."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from archive.store import Store, set_aside
from evokernel.errors import StoreError, may_pass
from tests.crash_safety.processes import STORE, contents, old_store, refusal, running, sound_facts, toy, wait_for_facts
from tests.support.stores import fill_store

CONFIG = "task: softmax\ndevice: cpu\nislands: [{name: a, operators: {tune: 1}}]\nbudget: {evaluations: 1}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    written = folder / "a.yaml"
    written.write_text(CONFIG)
    return written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder / STORE


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("mine")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_text(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)


def something_short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def one_byte(path: Path) -> None:
    path.write_text("x")  # for SQLite an empty database


def another_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE holidays(day TEXT); INSERT INTO holidays VALUES ('monday')")
    connection.close()


def half_a_store(path: Path) -> None:
    fill_store(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def an_empty_file(path: Path) -> None:
    path.touch()


def a_log_without_its_store(path: Path) -> None:
    old_store("v1_killed", path.parent)
    path.unlink()


def a_log_beside_an_emptied_store(path: Path) -> None:
    old_store("v1_killed", path.parent)
    path.write_bytes(b"")


STRANGE = [
    (a_folder, "is a folder, and a store is one file"),
    (a_pipe, "is no ordinary file, and a store is one file"),
    (a_text, "is no store: it does not begin as one"),
    (something_short, "is damaged or is not a store"),
    (one_byte, "is no store: it does not begin as one"),
    (another_database, "is a database, but not a store of evokernel; it was left as it is"),
    (half_a_store, "is damaged"),
    (a_log_without_its_store, "is missing, but run.db-wal beside it is not, and holds results"),
    (a_log_beside_an_emptied_store, "is empty, but run.db-wal beside it is not, and holds results"),
]


@pytest.mark.parametrize(("make", "expected"), STRANGE)
def test_it_is_refused_for_what_it_is_and_left_alone(path: Path, make: Callable[[Path], None], expected: str) -> None:
    make(path)
    before = contents(path.parent)
    for attempt in (
        lambda: Store.open(path, write=True),
        lambda: Store.open(path, write=False),
        lambda: Store.inbox_put(path, "hint", {}),
    ):
        with pytest.raises(StoreError) as caught:
            attempt()
        assert expected in str(caught.value)
    assert contents(path.parent) == before
    assert not path.with_name(f"{path.name}.lock").exists() or make in (something_short, half_a_store)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "expected"), STRANGE)
def test_a_search_is_refused_in_words(path: Path, config: Path, make: Callable[[Path], None], expected: str) -> None:
    make(path)
    before = contents(path.parent)
    assert expected in refusal("evolve", config, "--store", path, cwd=config.parent)
    assert contents(path.parent) == before


def test_an_empty_file_is_no_run_and_a_search_may_begin_in_it(path: Path) -> None:
    an_empty_file(path)
    for attempt in (lambda: Store.open(path, write=False), lambda: Store.inbox_put(path, "hint", {})):
        with pytest.raises(StoreError, match="is empty, 0 bytes: restore a backup if it held a run"):
            attempt()
    assert contents(path.parent) == {path.name: b""}
    with Store.open(path, write=True) as store:
        assert store.last_seq() == 0


def test_a_reader_waits_for_a_run_that_has_just_made_its_file(path: Path) -> None:
    an_empty_file(path)

    def begin() -> None:
        Store.open(path, write=True).close()

    beginning = threading.Timer(0.2, begin)
    beginning.start()
    with Store.open(path, write=False) as store:
        assert store.last_seq() == 0
    beginning.join()


def test_a_store_where_no_file_can_be_is_no_error_that_may_pass() -> None:
    for place in ("/proc/x.db", "/proc/x/y.db", f"/tmp/{'x' * 300}.db"):
        with pytest.raises(StoreError) as caught:
            Store.open(place, write=True)
        assert not may_pass(caught.value)


@pytest.mark.parametrize(
    "make", [an_empty_file, something_short, half_a_store, a_log_without_its_store, a_log_beside_an_emptied_store]
)
def test_a_fresh_start_moves_it_aside_whole(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    before = list(contents(path.parent).values())
    moved = set_aside(path)
    assert moved is not None
    assert list(contents(path.parent).values()) == before
    assert all(name.startswith(moved.name) for name in contents(path.parent))
    with Store.open(path, write=True) as store:
        assert store.last_seq() == 0


@pytest.mark.parametrize(
    ("make", "expected"), [(a_folder, "is a folder"), (a_text, "is no store"), (one_byte, "is no store")]
)
def test_a_fresh_start_does_not_move_what_never_was_a_store(
    path: Path, make: Callable[[Path], None], expected: str
) -> None:
    make(path)
    before = contents(path.parent)
    with pytest.raises(StoreError, match=expected):
        set_aside(path)
    assert contents(path.parent) == before
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.slow
def test_a_store_is_whole_without_the_shared_memory_of_its_log(path: Path) -> None:
    with running(toy(path, 100_000)) as engine:  # killed below, however late
        wait_for_facts(path, 3, process=engine)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    before = sound_facts(path)
    path.with_name(f"{STORE}-shm").unlink()
    assert sound_facts(path) == before
    path.with_name(f"{STORE}-shm").write_bytes(b"\xff" * 32768)
    with Store.open(path, write=True) as store:
        assert list(store.facts()) == before
        assert store.verify() == []


def test_a_store_without_its_log_is_what_its_last_whole_session_left(path: Path) -> None:
    old_store("v2_models", path.parent)
    before = sound_facts(path)
    with Store.open(path, write=True) as store:
        store.session_start()
        files = {suffix: path.with_name(STORE + suffix).read_bytes() for suffix in ("", "-wal", "-shm")}
    path.write_bytes(files[""])
    assert sound_facts(path) == before
    path.with_name(f"{STORE}-wal").write_bytes(files["-wal"][: len(files["-wal"]) // 2])  # torn in the middle
    assert sound_facts(path) == before
    path.with_name(f"{STORE}-wal").write_bytes(os.urandom(50_000))
    assert sound_facts(path) == before

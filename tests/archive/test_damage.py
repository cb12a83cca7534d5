"""Disks that fill up, files that may not be written, files that are damaged: clear errors, nothing lost."""

import os
import resource
import tempfile
from pathlib import Path

import pytest

from archive.file.database import connect
from archive.store import Store
from evokernel.errors import StoreCorrupt, StoreError
from tests.archive.records import good, propose, result

NOBODY = 65534


def in_child(work):
    """Run in a forked process and return what it returned, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(work()).encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(writing, f"!{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def open_folder():
    """A folder that other users reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def as_ordinary_user(work):
    def inner():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_child(inner)


def fill(store):
    step = store.next_step()
    while True:
        propose(store, step, rationale=os.urandom(2000).hex())
        store.commit(step, good(step))
        step += 1


def test_a_full_database_keeps_what_was_committed(path):
    with Store.open(path, write=True) as store:
        store.database.rows("PRAGMA max_page_count = 200")
        with pytest.raises(StoreError, match="free some space"):
            fill(store)
        before = [fact.step for fact in store.facts()]
        assert len(before) > 5
        with pytest.raises(StoreError, match="full"):
            fill(store)
        assert store.verify() == []
    with Store.open(path, write=True) as store:
        assert [fact.step for fact in store.facts()] == before
        lease = [proposal.step for proposal in store.open_leases()]
        result(store, store.next_step())
        assert lease in ([], [before[-1] + 1])


def test_a_disk_that_refuses_writes_keeps_what_was_committed(path):
    with Store.open(path, write=True) as store:
        result(store, 1)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        with Store.open(path, write=True) as store:
            fill(store)

    message = in_child(work)
    assert message.startswith("!StoreUnavailable")
    assert "no finished result is lost" in message
    with Store.open(path, write=True) as store:
        assert store.verify() == []
        assert len(list(store.facts())) > 5
        result(store, store.next_step())


def test_a_read_only_file_is_refused_for_writing_and_read(open_folder):
    path = open_folder / "run.db"
    with Store.open(path, write=True) as store:
        result(store, 1)
    path.chmod(0o444)
    (open_folder / "run.db.lock").chmod(0o666)

    def write():
        with Store.open(path, write=True) as store:
            result(store, 2)

    def read():
        with Store.open(path, write=False) as store:
            return len(list(store.facts()))

    message = as_ordinary_user(write)
    assert message.startswith("!StoreUnavailable")
    assert "writable" in message
    assert as_ordinary_user(lambda: Store.inbox_put(path, "hint", {})).startswith("!StoreUnavailable")
    assert as_ordinary_user(read) == "1"


def test_a_read_only_folder_is_refused_for_writing_and_read(open_folder):
    path = open_folder / "run.db"
    with Store.open(path, write=True) as store:
        result(store, 1)
    (open_folder / "run.db.lock").unlink()
    open_folder.chmod(0o555)

    def read():
        with Store.open(path, write=False) as store:
            return len(list(store.facts()))

    message = as_ordinary_user(lambda: Store.open(path, write=True))
    assert message.startswith("!StoreUnavailable")
    assert "folder it may write to" in message
    assert as_ordinary_user(read) == "1"
    assert as_ordinary_user(lambda: Store.open(open_folder / "sub" / "x.db", write=True)).startswith(
        "!StoreUnavailable"
    )
    open_folder.chmod(0o777)


def test_a_log_that_cannot_be_shared_is_explained(open_folder):
    path = open_folder / "run.db"

    def leave_a_log():
        store = Store.open(path, write=True)
        result(store, 1)
        os._exit(0)

    in_child(leave_a_log)
    assert (open_folder / "run.db-wal").stat().st_size > 0
    (open_folder / "run.db-shm").unlink()
    open_folder.chmod(0o555)
    for file in open_folder.iterdir():
        file.chmod(0o444)
    message = as_ordinary_user(lambda: Store.open(path, write=False))
    open_folder.chmod(0o777)
    assert message.startswith("!StoreUnavailable")
    assert "-wal" in message


def test_a_missing_file_is_named(path):
    with pytest.raises(StoreError, match=r"no store at .*run\.db"):
        Store.open(path, write=False)
    with pytest.raises(StoreError, match="no store"):
        Store.inbox_put(path, "hint", {})
    assert not path.exists()


def test_folders_are_made_and_odd_names_work(tmp_path):
    path = tmp_path / "runs" / "a b?c#d%20é.db"
    with Store.open(path, write=True) as store:
        result(store, 1)
    assert Store.inbox_put(path, "hint", {}) == 1
    assert path.is_file()


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("damage", ["garbage", "header", "truncated", "middle"])
def test_a_damaged_file_is_refused(path, damage, write):
    with Store.open(path, write=True) as store:
        for step in range(1, 60):
            result(store, step)
    data = path.read_bytes()
    path.write_bytes(
        {
            "garbage": b"no database at all" * 1000,
            "header": b"x" * 100 + data[100:],
            "truncated": data[: len(data) // 2],
            "middle": data[:8192] + b"\xff" * (len(data) - 8192),
        }[damage]
    )
    with pytest.raises(StoreCorrupt, match="is no store" if damage in ("garbage", "header") else "--fresh"):
        Store.open(path, write=write)


def test_damage_met_while_reading_is_a_corrupt_store(path):
    with Store.open(path, write=True) as store:
        for step in range(1, 300):
            result(store, step)
    database = connect(path, write=False)
    database.rows("PRAGMA cache_size = 1")
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))
    with pytest.raises(StoreCorrupt):
        list(Store(database, None).facts())
    database.close()


def test_a_payload_that_is_no_json_is_refused(store, path):
    with pytest.raises(StoreError, match="JSON"):
        Store.inbox_put(path, "hint", {1, 2})

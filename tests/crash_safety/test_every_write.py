"""A process that is killed, torn off or refused at every single write while it does something to a store."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archive.file import file_version
from archive.fork import fork
from archive.journal import Fact
from archive.store import Store, set_aside
from tests.crash_safety.processes import STORE, environment, old_store, sound_facts

SCRIPT = Path(__file__).with_name("at_every_write.py")

pytestmark = pytest.mark.slow

At = Callable[..., list[Path]]


@pytest.fixture
def at_every_write(tmp_path: Path, interposer: Path) -> Iterator[At]:
    """Returns the folders that are left, one for each write; the last is of the child that came through."""

    def start(mode: str, action: str, template: Path, *, stride: int = 1) -> list[Path]:
        out = tmp_path / "out"
        command = [sys.executable, str(SCRIPT), mode, action, str(template), str(out), str(stride)]
        done = subprocess.run(
            command, env=environment(LD_PRELOAD=str(interposer)), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        left = sorted(out.iterdir(), key=lambda folder: int(folder.name))
        assert len(left) > 3, "nothing was written"
        if mode in ("full", "read-only"):
            told = [folder.joinpath("told").read_text() for folder in left[:-1]]
            assert [words for words in told if not says_what_to_do(words, mode)] == []
        return left

    yield start
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


def says_what_to_do(told: str, mode: str) -> bool:
    """Whether the error that a child met is one for people."""
    words = ("free some space", "(full, ", "No space left") if mode == "full" else ("read-only", "Read-only")
    return told.startswith(("StoreError: ", "StoreUnavailable: ")) and any(each in told for each in words)


def brought_up_to_date(path: Path) -> list[Fact]:
    """Open a store as an engine does; return its facts."""
    with Store.open(path, write=True) as store:
        assert store.database.number("PRAGMA user_version") == file_version.VERSION
        assert store.verify() == []
        return list(store.facts())


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("v1_killed", "kill"),
        ("v1_killed", "tear"),
        ("v1_killed", "full"),
        ("v1_killed", "read-only"),
        ("v1_finished", "kill"),
        ("v1_finished", "full"),
    ],
)
def test_a_migration_ends_whole_or_has_not_begun(at_every_write: At, template: Path, name: str, mode: str) -> None:
    old_store(name, template)
    before = sound_facts(template / STORE)
    assert len(before) > 10
    for folder in at_every_write(mode, "migrate", template):
        assert sound_facts(folder / STORE) == before
        assert brought_up_to_date(folder / STORE) == before


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_session_begins_whole_or_not_at_all(at_every_write: At, template: Path, mode: str) -> None:
    path = old_store("v2_models", template)
    with Store.open(path, write=True):
        pass  # brings its schema up to date, which is not what is looked at here
    for number in range(3):
        Store.inbox_put(path, "hint", {"text": f"hint {number}"})
    before = sound_facts(path)
    for folder in at_every_write(mode, "begin_session", template):
        now = sound_facts(folder / STORE)
        assert now[: len(before)] == before
        with Store.open(folder / STORE, write=True) as store:
            store.take_inbox()
            taken = [fact.payload["text"] for fact in store.facts() if type(fact).__name__ == "InboxEntry"]
            assert taken == ["hint 0", "hint 1", "hint 2"]
            assert store.verify() == []


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_new_store_can_be_begun_again(at_every_write: At, template: Path, mode: str) -> None:
    for folder in at_every_write(mode, "migrate", template):
        assert brought_up_to_date(folder / STORE) == []


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_fork_can_be_made_again(at_every_write: At, template: Path, tmp_path: Path, mode: str) -> None:
    old_store("v1_finished", template).rename(template / "source.db")
    before = sound_facts(template / "source.db")
    with Store.open(template / "source.db", write=False) as store:
        best = store.best()[0].candidate.candidate.id
    fork(template / "source.db", tmp_path / "whole.db", candidate=best)
    whole = sound_facts(tmp_path / "whole.db")
    for folder in at_every_write(mode, "fork_best", template, stride=3):
        assert sound_facts(folder / "source.db") == before
        path = folder / STORE
        if not path.exists() or not sound_facts(path):
            fork(folder / "source.db", path, candidate=best)
        assert len(sound_facts(path)) == len(whole)


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_fresh_start_loses_nothing_of_the_old_store(at_every_write: At, template: Path, mode: str) -> None:
    old_store("v1_killed", template)
    before = sound_facts(template / STORE)
    for folder in at_every_write(mode, "start_over", template, stride=2):
        kept = [sound_facts(path) for path in folder.glob("*.db") if path.stat().st_size]
        assert before in kept
        set_aside(folder / STORE)
        assert brought_up_to_date(folder / STORE) == []

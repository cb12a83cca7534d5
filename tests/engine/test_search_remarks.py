"""Remarks of a search: what happened stays in the store, and no replay depends on it."""

import asyncio
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.engine.remark_listener import RemarkListener
from evokernel.engine.search import Search
from evokernel.errors import HarnessError
from evokernel.python.run import open_store
from evokernel.records.events import Notice
from evokernel.records.remarks import Remark, RemarkKind
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator, toy_speed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.db"


def run(path: Path, evaluator: InstantEvaluator, heard: Heard | None = None, **changes: object) -> Search:
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(**changes), evaluator, heard=heard)
        asyncio.run(search.run())
        return search


def remarks(path: Path, *kinds: RemarkKind) -> list[Remark]:
    with open_store(path) as opened:
        return opened.remarks(kinds or tuple(RemarkKind))


def test_migrations_and_resets_stay_in_the_store_as_they_were_told(path: Path) -> None:
    heard = Heard()
    run(path, InstantEvaluator(), heard, budget={"evaluations": 60}, reset_after=3)
    kept = [event for event in heard.events if isinstance(event, Notice) and event.kind is not None]
    found = remarks(path)
    assert [(each.kind, each.text, each.step, each.candidate) for each in found] == [
        (notice.kind, notice.text, notice.step, notice.candidate) for notice in kept
    ]
    assert {each.kind for each in found} == {RemarkKind.MIGRATION, RemarkKind.RESET}
    assert all(each.session == 1 and each.step is not None for each in found)
    assert all(each.candidate in each.text for each in remarks(path, RemarkKind.RESET))


def test_faults_and_refused_finals_stay_in_the_store(path: Path) -> None:
    lost: list[str] = []

    def lose_once(request: object) -> Exception | None:
        lost.append("a worker")
        return HarnessError("lost a worker") if len(lost) == 3 else None

    evaluator = InstantEvaluator(fails=lose_once, holds=lambda source: (toy_speed(source) or 0) < 0.95)
    run(path, evaluator, budget={"evaluations": 100}, reset_after=None)
    (fault,), (refused,) = remarks(path, RemarkKind.FAULT), remarks(path, RemarkKind.FINAL_REFUSED)
    assert fault.text == f"our evaluator failed on {fault.candidate}: lost a worker"
    assert refused.text == f"{refused.candidate} does not hold: holdout_failed"
    with Store.open(path, write=False) as store:
        assert {store.candidate(each.candidate).candidate.id for each in (fault, refused)}


def test_remarks_change_no_replay(path: Path) -> None:
    ended = run(path, InstantEvaluator(), budget={"evaluations": 25})
    with Store.open(path, write=True) as store:
        for kind in RemarkKind:
            store.remarks.add(kind, "said by hand", step=3, candidate="0" * 16)
    assert replayed(path, toy_config()).fingerprint() == ended.state.fingerprint()
    heard = Heard()
    run(path, InstantEvaluator(), heard, budget={"evaluations": 25})
    assert not any("another state" in note for note in heard.notes)


def test_a_device_is_remarked_on_once_and_only_when_a_session_begins(path: Path) -> None:
    with Store.open(path, write=True) as store:
        for device in ("a", "a", "b", "a"):
            listener = RemarkListener(store)
            listener.hear(Notice(f"evolving on {device}", kind=RemarkKind.DEVICE_CHANGE))
            listener.hear(Notice("starting"))
            known = len(store.remarks.all())
            store.session_start()
            listener.hear(Notice("started"))
            assert len(store.remarks.all()) in (known, known + 1)
            store.session_end("enough")
        assert [(each.text, each.session) for each in store.remarks.all()] == [
            ("evolving on a", 1),
            ("evolving on b", 3),
            ("evolving on a", 4),
        ]

"""Forking and editing from the command line, on a real store: what goes on, what is refused, what is shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from archive.journal import ConfigEntry, ResultEntry
from archive.store import Store
from tests.e2e.kill_and_resume import write_config
from tests.e2e.test_evolve import TASK, here

pytestmark = pytest.mark.slow


def status(store: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(here("status", store, "--json"))
    return document


def results(path: Path) -> list[ResultEntry]:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        return [fact for fact in store.facts() if isinstance(fact, ResultEntry)]


def test_a_run_is_edited_forked_and_begun_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_config(tmp_path, TASK)
    first = ("evolve", config.name, "--budget", "evaluations=2")
    here(*first)

    # what steers future choices may change, and is shown
    shares = ("--set", "islands.one.operators={tune: 1, graft: 1}")
    here("evolve", config.name, "--budget", "evaluations=3,hours=1", *shares)
    edits = {edit["key"]: (edit["old"], edit["new"]) for edit in status("kill.db")["edits"]}
    assert edits["budget.evaluations"] == (2, 3)
    assert edits["budget.hours"] == (None, 1.0)
    assert edits["islands.one.operators.rewrite"] == (0.6, None)
    assert "islands.one.operators.graft: absent -> 1" in here("status", "kill.db")

    # what decides the meaning of results may not; nothing is written
    before = results(tmp_path / "kill.db")
    tolerant = tmp_path / "tolerant.py"
    tolerant.write_text(
        TASK.read_text()
        .replace('reduction="K"', 'reduction="4 * K"')
        .replace("Path(__file__).parents[2]", f"Path({str(TASK)!r}).parents[2]")
    )
    for change in ("seed=8", "topology={one: [two]}", f"task={tolerant}"):
        refused = here(*first, "--set", change, code=2)
        assert change.partition("=")[0] in refused
        assert "--fresh" in refused
        assert "fork" in refused
    assert results(tmp_path / "kill.db") == before

    # a fork goes on under another seed, island and topology, with budgets from zero
    with_two = ("--set", "seed=8", "--set", "topology={one: [two]}")
    assert "copied" in here("fork", "kill.db", "best", "fork.db")
    assert "holds a run" in here("fork", "kill.db", "best", "fork.db", code=2)
    here("evolve", config.name, "--store", "fork.db", *with_two, "--budget", "evaluations=1")
    made = results(tmp_path / "fork.db")
    assert sum(not fact.origin for fact in made) == 1
    assert status("fork.db")["forked_from"] == status("kill.db")["run_id"]

    # a fork of the fork takes a kernel to another task, where it is measured anew
    here("fork", "fork.db", made[-1].proposal.candidate.id, "second.db")
    here("evolve", config.name, "--store", "second.db", "--set", f"task={tolerant}", "--budget", "evaluations=1")
    again = results(tmp_path / "second.db")
    first_run = status("kill.db")["run_id"]
    assert any(fact.origin.startswith(f"{first_run}:") for fact in again)
    assert sum(not fact.origin for fact in again) == 1
    foreign = here("evolve", config.name, "--store", "second.db", "--set", "language=triton", code=2)
    assert "cuda" in foreign or "triton" in foreign

    # --fresh keeps the old file under a dated name, however often
    for _ in range(2):
        assert "the old store is now" in here("evolve", config.name, "--fresh", "--budget", "evaluations=1")
    kept = sorted(tmp_path.glob("kill.2*.db"))
    assert len(kept) == 2
    assert sorted(len(results(path)) for path in kept) == [1, len(before)]
    with Store.open(tmp_path / "kill.db", write=False) as store:
        assert not [fact for fact in store.facts() if isinstance(fact, ConfigEntry)]

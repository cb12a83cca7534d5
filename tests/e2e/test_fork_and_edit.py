"""Forking and editing from the command line, on a real store: what goes on, what is refused, what is shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from archive.journal import ConfigEntry, ResultEntry
from archive.store import Store
from tests.e2e.kill_and_resume import write_config
from tests.e2e.test_evolve import TASK, evokernel

pytestmark = pytest.mark.slow


def said(cwd: Path, *arguments: str, code: int = 0) -> str:
    done = evokernel(*arguments, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def status(cwd: Path, store: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(said(cwd, "status", store, "--json"))
    return document


def results(path: Path) -> list[ResultEntry]:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        return [fact for fact in store.facts() if isinstance(fact, ResultEntry)]


def test_a_run_is_edited_forked_and_begun_afresh(tmp_path: Path) -> None:
    config = write_config(tmp_path, TASK)
    first = ("evolve", config.name, "--budget", "evaluations=4")
    said(tmp_path, *first)

    # what steers future choices may change, and is shown
    shares = ("--set", "islands.one.operators={tune: 1, graft: 1}")
    said(tmp_path, "evolve", config.name, "--budget", "evaluations=5,hours=1", *shares)
    edits = {edit["key"]: (edit["old"], edit["new"]) for edit in status(tmp_path, "kill.db")["edits"]}
    assert edits["budget.evaluations"] == (4, 5)
    assert edits["budget.hours"] == (None, 1.0)
    assert edits["islands.one.operators.rewrite"] == (0.6, None)
    assert "islands.one.operators.graft: absent -> 1" in said(tmp_path, "status", "kill.db")

    # what decides the meaning of results may not; nothing is written
    before = results(tmp_path / "kill.db")
    tolerant = tmp_path / "tolerant.py"
    tolerant.write_text(
        TASK.read_text()
        .replace('reduction="K"', 'reduction="4 * K"')
        .replace("Path(__file__).parents[2]", f"Path({str(TASK)!r}).parents[2]")
    )
    for change in ("seed=8", "topology={one: [two]}", f"task={tolerant}"):
        refused = said(tmp_path, *first, "--set", change, code=2)
        assert change.partition("=")[0] in refused
        assert "--fresh" in refused
        assert "fork" in refused
    assert results(tmp_path / "kill.db") == before

    # a fork goes on under another seed, island and topology, with budgets from zero
    with_two = ("--set", "seed=8", "--set", "topology={one: [two]}")
    assert "copied" in said(tmp_path, "fork", "kill.db", "best", "fork.db")
    assert "holds a run" in said(tmp_path, "fork", "kill.db", "best", "fork.db", code=2)
    said(tmp_path, "evolve", config.name, "--store", "fork.db", *with_two, "--budget", "evaluations=2")
    made = results(tmp_path / "fork.db")
    assert sum(not fact.origin for fact in made) == 2
    assert status(tmp_path, "fork.db")["forked_from"] == status(tmp_path, "kill.db")["run_id"]

    # a fork of the fork takes a kernel to another task, where it is measured anew
    said(tmp_path, "fork", "fork.db", made[-1].proposal.candidate.id, "second.db")
    said(
        tmp_path,
        "evolve",
        config.name,
        "--store",
        "second.db",
        "--set",
        f"task={tolerant}",
        "--budget",
        "evaluations=3",
    )
    again = results(tmp_path / "second.db")
    first_run = status(tmp_path, "kill.db")["run_id"]
    assert any(fact.origin.startswith(f"{first_run}:") for fact in again)
    assert sum(not fact.origin for fact in again) == 3
    foreign = said(tmp_path, "evolve", config.name, "--store", "second.db", "--set", "language=triton", code=2)
    assert "cuda" in foreign or "triton" in foreign

    # --fresh keeps the old file under a dated name, however often
    for _ in range(2):
        assert "the old store is now" in said(tmp_path, "evolve", config.name, "--fresh", "--budget", "evaluations=1")
    kept = sorted(tmp_path.glob("kill.2*.db"))
    assert len(kept) == 2
    assert sorted(len(results(path)) for path in kept) == [1, len(before)]
    with Store.open(tmp_path / "kill.db", write=False) as store:
        assert not [fact for fact in store.facts() if isinstance(fact, ConfigEntry)]

"""Searches on forks and edited configs: what counts anew, what is measured anew, what is written down."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archive.fork import fork
from archive.journal import ConfigEntry, ResultEntry
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import check_same_class
from evokernel.engine.search import Search
from evokernel.errors import RunMismatch
from evokernel.evaluate.device.device_class import Resolved
from evokernel.records.evaluation import Status
from evokernel.records.events import Notice
from evokernel.report.status import read_status
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import InstantEvaluator

BASE = {"task": "gemm", "budget": {"evaluations": 1}, "islands": [{"name": "one", "operators": {"tune": 1}}]}


class Elsewhere(InstantEvaluator):
    """Judges under another task or device."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.identity = replace(self.identity, **changes)


def run(path: Path, evaluator: InstantEvaluator | None = None, **changes: Any) -> Search:
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(**changes), evaluator or InstantEvaluator())
        asyncio.run(search.run())
    return search


def results(path: Path) -> list[ResultEntry]:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        return [fact for fact in store.facts() if isinstance(fact, ResultEntry)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    run(tmp_path / "toy.db", budget={"evaluations": 12})
    return tmp_path / "toy.db"


def best(path: Path) -> str:
    with Store.open(path, write=False) as store:
        return store.best(1)[0].candidate.candidate.id


@pytest.mark.parametrize("which", range(12))
def test_a_fork_of_any_candidate_goes_on_with_a_budget_of_its_own(path: Path, tmp_path: Path, which: int) -> None:
    chosen = results(path)[which].proposal.candidate.id
    target = tmp_path / "fork.db"
    copied = fork(path, target, candidate=chosen)
    evaluator = InstantEvaluator()
    search = run(target, evaluator, seed=9, budget={"evaluations": 5})  # another seed: it is another run
    assert search.account.results - search.account.copied == 5
    made = results(target)
    assert sum(bool(fact.origin) for fact in made) == copied
    again = {request.program_hash for request in evaluator.asked}
    assert not again & {
        fact.evaluation.key.program_hash for fact in made if fact.origin and fact.evaluation.ok is False
    }
    with Store.open(target, write=False) as store:
        status = read_status(store)
        assert status.run.forked_from
        assert status.spent.evaluations == len({(request.program_hash, request.budget) for request in evaluator.asked})


def test_a_plateau_counts_from_the_fork_on(path: Path, tmp_path: Path) -> None:
    fork(path, tmp_path / "fork.db", candidate=best(path))
    search = run(tmp_path / "fork.db", budget={"plateau": 3, "evaluations": 100})
    assert search.account.results - search.account.copied >= 3


def test_a_fork_of_a_fork_and_of_a_run_that_went_on_keeps_the_first_origin(path: Path, tmp_path: Path) -> None:
    fork(path, tmp_path / "a.db", candidate=best(path))
    run(tmp_path / "a.db", seed=2, budget={"evaluations": 40}, reset_after=None)
    fork(tmp_path / "a.db", tmp_path / "b.db", candidate=best(tmp_path / "a.db"))
    search = run(tmp_path / "b.db", seed=3, budget={"evaluations": 4}, reset_after=None)
    with Store.open(path, write=False) as first, Store.open(tmp_path / "a.db", write=False) as second:
        runs = {first.meta("run_id"), second.meta("run_id")}
    origins = {fact.origin.partition(":")[0] for fact in results(tmp_path / "b.db") if fact.origin}
    assert first_of(path) in origins <= runs
    assert search.account.results - search.account.copied == 4


def first_of(path: Path) -> str:
    with Store.open(path, write=False) as store:
        return store.meta("run_id") or ""


@pytest.mark.parametrize("changes", [{"device": "another device"}, {"task_hash": "other tolerances"}])
def test_where_a_fork_means_something_else_its_candidates_are_measured_anew(
    path: Path, tmp_path: Path, changes: dict[str, str]
) -> None:
    chosen = best(path)
    copied = fork(path, tmp_path / "fork.db", candidate=chosen)
    evaluator = Elsewhere(**changes)
    search = run(tmp_path / "fork.db", evaluator, budget={"evaluations": 10})
    judged = {request.candidate.id for request in evaluator.asked}
    fresh = [fact for fact in results(tmp_path / "fork.db") if not fact.origin]
    assert chosen in judged
    assert len(fresh) == search.account.results == 10
    assert search.account.copied == 0
    assert copied <= len(judged)
    for elite in search.state.archipelago.history.elites.values():
        assert elite.seq in {fact.seq for fact in fresh}
    with pytest.raises(RunMismatch, match=r"--fresh[\s\S]*fork"):
        run(tmp_path / "fork.db", InstantEvaluator(), budget={"evaluations": 10})


def test_a_failed_candidate_can_be_forked_and_the_search_goes_on_from_its_ancestors(path: Path, tmp_path: Path) -> None:
    failed = next(fact.proposal for fact in results(path) if fact.evaluation.status is Status.NUMERICAL)
    fork(path, tmp_path / "fork.db", candidate=failed.candidate.id)
    search = run(tmp_path / "fork.db", budget={"evaluations": 6})
    assert failed.candidate.id not in search.state.archipelago.history.elites
    assert search.account.lead is not None
    assert search.state.archipelago.history.failures.get(failed.candidate.id) is None  # of a rule: nothing to mend


def test_budgets_accumulate_over_sessions(path: Path) -> None:
    with Store.open(path, write=False) as store:
        first = store.spent()
    run(path, budget={"evaluations": 15})
    with Store.open(path, write=False) as store:
        second = store.spent()
    assert len(results(path)) == 15
    assert second.evaluations > first.evaluations
    assert second.seconds > first.seconds
    hours = (second.seconds + 1e-6) / 3600
    evaluator = InstantEvaluator()
    search = run(path, evaluator, budget={"hours": hours, "evaluations": 1000})  # all but used up
    assert search.account.results < 1000


def test_each_permitted_edit_is_a_row_that_status_shows_and_a_refused_one_leaves_nothing(path: Path) -> None:
    before = path.read_bytes()
    islands = [island.model_dump() for island in toy_config().islands]
    islands[0]["operators"] = {"tune": 2.0, "graft": 0.5}
    with pytest.raises(RunMismatch, match="seed: 0 -> 5"):
        run(path, seed=5, islands=islands, budget={"evaluations": 13})
    with pytest.raises(RunMismatch, match="threads: 1 -> 2"):
        run(path, threads=2, islands=islands, budget={"evaluations": 13})
    assert path.read_bytes() == before
    run(path, islands=islands, budget={"evaluations": 13})
    run(path, islands=islands, budget={"evaluations": 13})  # nothing more has changed
    with Store.open(path, write=False) as store:
        rows = [(fact.key, fact.old, fact.new) for fact in store.facts() if isinstance(fact, ConfigEntry)]
        shown = [(edit.key, edit.old, edit.new) for edit in read_status(store).edits]
    assert (
        rows
        == shown
        == [
            ("budget.evaluations", 12, 13),
            ("islands.one.operators.blend", 0.3, None),
            ("islands.one.operators.graft", None, 0.5),
            ("islands.one.operators.tune", 1.0, 2.0),
        ]
    )


@pytest.mark.parametrize(("language", "refused"), [("triton", True), ("cpp", False)])
def test_a_fork_stays_in_the_language_of_its_kernels(path: Path, tmp_path: Path, language: str, refused: bool) -> None:
    fork(path, tmp_path / "fork.db", candidate=best(path))
    resolved = Resolved(RunConfig.model_validate({**BASE, "language": language}), "cpu", Notice("because"))
    with Store.open(tmp_path / "fork.db", write=True) as store:
        if not refused:
            check_same_class(store, resolved)
            return
        with pytest.raises(RunMismatch, match=r"forked from a kernel in cpp, .* in triton[\s\S]*language=cpp"):
            check_same_class(store, resolved)

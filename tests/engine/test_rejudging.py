"""A search whose evaluator has changed since the last session: what leads is judged again, and nothing else counts."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from archive.follower import read_account
from archive.journal import ResultEntry
from archive.store import Store
from evokernel.engine.search import Search
from evokernel.errors import HarnessError, RunMismatch
from evokernel.protocols import Mode
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import EvaluationRequest, EvaluatorIdentity, Fidelity
from evokernel.report.rows import read_judged
from tests.support.engine import Heard, toy_config, toy_search
from tests.support.fakes import InstantEvaluator, toy_speed

FIRST = EvaluatorIdentity("task", "toy device", "toy", "1", Mode.WORKER, {"peak_gflops": 1.0}, "none")
SECOND = replace(FIRST, evaluator_version="2")


def slower(source: str) -> float | None:
    speed = toy_speed(source)
    return None if speed is None else speed / 3


def session(path: Path, evaluator: InstantEvaluator, evaluations: int, heard: Heard) -> Search:
    """Run a session and return its engine."""
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"evaluations": evaluations}), evaluator, heard=heard)
        asyncio.run(search.run())
    return search


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of a search that the first version judged."""
    session(tmp_path / "run.db", InstantEvaluator(identity=FIRST), 12, Heard())
    return tmp_path / "run.db"


def test_only_verdicts_of_the_evaluator_of_now_make_parents_and_reports(path: Path) -> None:
    evaluator, heard = InstantEvaluator(slower, identity=SECOND), Heard()
    search = session(path, evaluator, 14, heard)
    asked = {request.program_hash for request in evaluator.asked}
    history = search.state.archipelago.history
    assert {elite.program_hash for elite in history.elites.values()} <= asked
    assert all(verdict.evaluation.key.evaluator_version == "2" for verdict in history.verdicts.values())
    with Store.open(path, write=False) as store:
        assert len([fact for fact in store.facts() if isinstance(fact, ResultEntry)]) == 14
        assert {each.candidate.program_hash for each in store.best(50)} <= asked
        account = read_account(store)
        assert account == search.account
        assert account.results == 14
        assert account.lead is not None
        assert account.lead.candidate == store.best(1)[0].candidate.candidate.id
        assert account.seed is not None
        for judged in read_judged(store):
            assert {each.evaluation.key.evaluator_version for each in judged.evaluations} == {"2"}


def test_it_is_done_once_and_a_replay_gives_the_same_state(path: Path) -> None:
    session(path, InstantEvaluator(slower, identity=SECOND), 14, Heard())
    evaluator, heard = InstantEvaluator(slower, identity=SECOND), Heard()
    session(path, evaluator, 16, heard)
    assert not any("judged again" in note or "another state" in note for note in heard.notes)
    assert Fidelity.PRECISE not in {request.budget for request in evaluator.asked[:1]}


def test_what_was_judged_again_before_a_kill_is_not_judged_a_third_time(path: Path) -> None:
    first = InstantEvaluator(slower, identity=SECOND)
    search = session(path, first, 12, Heard())
    with Store.open(path, write=True) as store:
        store.database.execute("DELETE FROM meta WHERE key = 'judged_by'")
    second, heard = InstantEvaluator(slower, identity=SECOND), Heard()
    again = session(path, second, 12, heard)
    assert second.asked == []
    assert again.state.fingerprint() == search.state.fingerprint()


def test_a_fault_of_ours_costs_one_kernel(path: Path) -> None:
    broken: list[Candidate] = []

    def fails(request: EvaluationRequest) -> Exception | None:
        if broken and broken != [request.candidate]:
            return None
        broken[:] = [request.candidate]
        return HarnessError("a judge died")

    heard = Heard()
    search = session(path, InstantEvaluator(fails=fails, identity=SECOND), 14, heard)
    assert any("our evaluator failed" in note for note in heard.notes)
    assert broken[0].id not in search.state.archipelago.history.elites


def test_an_earlier_text_of_the_task_is_gone_on_with_and_another_is_refused(path: Path) -> None:
    text = replace(FIRST, task_hash="new text")
    with pytest.raises(RunMismatch, match=r"task_hash .*: task -> new text"):
        session(path, InstantEvaluator(identity=text), 14, Heard())
    heard, same = Heard(), replace(text, earlier_task_hashes=frozenset({"task"}))
    session(path, InstantEvaluator(identity=same), 14, heard)
    assert any("leading kernels are judged again" in note for note in heard.notes)
    with Store.open(path, write=False) as store:
        identity = store.identity()
        assert identity is not None
        assert (identity.task_hash, identity.evaluator_version) == ("new text", "1")
        assert store.best(1)[0].evaluations[-1].evaluation.key.task_hash == "new text"

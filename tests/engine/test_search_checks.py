"""Operators that propose hidden checks: when they are asked, and what their checks change."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archive.fork import fork
from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.engine.assemble import make_operators
from evokernel.engine.search import Search
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Mode, Stage, Status
from evokernel.records.events import Notice
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.llm import ModelRequest
from evokernel.records.remarks import RemarkKind
from evokernel.source.tunables import read_tunables
from evokernel.testing.scripted import ScriptedTransport
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator


def breaks(check: HiddenCheck, source: str) -> bool:
    """Toys whose B is the size of a check are wrong there."""
    return read_tunables(source).values["B"] == check.sizes["N"]


class CheckingToy(InstantEvaluator):
    """Takes checks: N above 9 is refused. `late` is called while a kernel is judged."""

    def __init__(self, late: Callable[[EvaluationRequest], Any] = lambda request: None, **changes: Any) -> None:
        super().__init__(**changes)
        self._late = late

    async def admit(self, check: HiddenCheck) -> str:
        return "N is from 1 to 9" if check.sizes["N"] > 9 else ""

    async def recheck(self, request: EvaluationRequest) -> Evaluation | None:
        found = self._under(request, await super().evaluate(request))
        return None if found.ok else found

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        found = self._under(request, await super().evaluate(request))
        waited = self._late(request)
        if waited is not None:
            await waited
        return found

    def _under(self, request: EvaluationRequest, found: Evaluation) -> Evaluation:
        key = self.identity.key(request.program_hash, request.budget, checks=request.checks)
        if any(breaks(check, request.candidate.source) for check in request.checks):
            return Evaluation(key, found.candidate_id, Status.NUMERICAL, Stage.CORRECTNESS, feedback="a hidden check")
        return replace(found, key=key)


def proposing(*sizes: int) -> Callable[[ModelRequest], str]:
    checks = [{"sizes": {"N": size}, "reason": f"B at {size}"} for size in sizes]
    return lambda request: f"```json\n{json.dumps({'checks': checks})}\n```"


def config_of(**changes: Any) -> Any:
    islands = [{"name": "one", "operators": {"tune": 3, "testing": 1}, "choose": "pairs"}]
    return toy_config(**{"islands": islands, "budget": {"evaluations": 20}, "in_flight": 1, **changes})


def session(
    path: Path, evaluator: InstantEvaluator, script: Callable[[ModelRequest], str], *, heard: Heard | None = None,
    **changes: Any,
) -> Search:  # fmt: skip
    config = config_of(**changes)
    with Store.open(path, write=True) as store:
        model = ScriptedTransport(script, log=store.calls)
        operators = make_operators(config, model=model)
        search = toy_search(store, config, evaluator, heard=heard, operators=operators, model=model)
        asyncio.run(search.run())
    return search


def facts(path: Path, kind: type) -> list[Any]:
    with Store.open(path, write=False) as store:
        return [fact for fact in store.facts() if isinstance(fact, kind)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def test_it_gets_its_share_of_the_steps_whatever_gains_say(path: Path) -> None:
    session(path, CheckingToy(), proposing(11), budget={"evaluations": 20})
    others = len(facts(path, ResultEntry)) + len(facts(path, EmptyStep))
    asked = [fact for fact in facts(path, EmptyStep) if fact.no_candidate.operator == "testing"]
    assert others // 5 <= len(asked) <= others // 4
    assert all(fact.no_candidate.reason.endswith("refused: N is from 1 to 9") for fact in asked)


def test_what_fails_a_check_leaves_for_good_and_the_store_says_so(path: Path) -> None:
    heard = Heard()
    search = session(path, CheckingToy(), proposing(11, 4, 9), heard=heard)
    with Store.open(path, write=False) as store:
        (added,) = store.added_checks()
        assert store.verify() == []
        best = store.best(1)[0].candidate.candidate
    assert added.check.sizes == {"N": 4}, "what breaks no kernel would cost time with each of them"
    history = search.state.archipelago.history
    assert not any(breaks(added.check, elite.candidate.source) for elite in history.elites.values())
    assert not breaks(added.check, best.source)
    later = [fact for fact in facts(path, ResultEntry) if fact.seq > added.seq]
    assert any(not fact.evaluation.ok for fact in later if breaks(added.check, fact.proposal.candidate.source))
    assert not any(fact.evaluation.ok for fact in later if breaks(added.check, fact.proposal.candidate.source))
    kinds = [event.kind for event in heard.events if isinstance(event, Notice)]
    assert kinds.count(RemarkKind.HIDDEN_CHECK) == 1 + len(added.broke)
    assert replayed(path, config_of()).fingerprint() == search.state.fingerprint()


def test_a_kernel_under_way_when_a_check_comes_is_judged_under_it(path: Path) -> None:
    come, judged, held = asyncio.Event(), list[str](), list[str]()

    class Listening(Heard):
        def hear(self, event: Any) -> None:
            super().hear(event)
            if isinstance(event, Notice) and event.kind is RemarkKind.HIDDEN_CHECK:
                come.set()

    def late(request: EvaluationRequest) -> Any:
        """Keep the fourth kernel until there is a check."""
        judged.append(request.candidate.id)
        if len(set(judged)) < 4 or held or request.checks:
            return None
        held.append(request.candidate.id)
        return asyncio.wait_for(come.wait(), 60)

    session(path, CheckingToy(late), proposing(1, 2, 4, 5), heard=Listening(), in_flight=4)
    with Store.open(path, write=False) as store:
        added = store.added_checks()
    (result,) = [fact for fact in facts(path, ResultEntry) if fact.proposal.candidate.id in held]
    assert result.seq > added[0].seq
    assert "; hidden checks " in result.evaluation.key.environment
    assert judged.count(held[0]) > 1


def test_another_evaluator_takes_none_and_a_store_with_checks_goes_on(path: Path) -> None:
    session(path, CheckingToy(), proposing(4))
    before = len(facts(path, ResultEntry))
    session(path, InstantEvaluator(), proposing(3), budget={"evaluations": 26})
    assert len(facts(path, ResultEntry)) > before
    said = [fact.no_candidate.reason for fact in facts(path, EmptyStep)]
    assert "this evaluator takes no further hidden checks" in said


def test_a_new_version_of_the_evaluator_judges_leaders_under_the_checks(path: Path) -> None:
    session(path, CheckingToy(), proposing(4))
    newer = replace(InstantEvaluator().identity, evaluator_version="2", mode=Mode.WORKER)
    evaluator = CheckingToy(identity=newer)
    session(path, evaluator, proposing(11), budget={"evaluations": 24})
    assert evaluator.asked
    assert all([check.sizes for check in request.checks] == [{"N": 4}] for request in evaluator.asked)


def test_a_fork_takes_the_checks_along_and_drops_what_its_task_does_not_admit(path: Path, tmp_path: Path) -> None:
    session(path, CheckingToy(), proposing(4, 5))
    with Store.open(path, write=False) as store:
        found, best = store.added_checks(), store.best(1)[0].candidate.candidate.id
    assert {each.check.sizes["N"] for each in found} == {4, 5}
    new, again, heard = tmp_path / "fork.db", tmp_path / "again.db", Heard()
    fork(path, new, candidate=best)
    fork(new, again, candidate=best)  # before a session has taken them in

    class OddOnly(CheckingToy):
        async def admit(self, check: HiddenCheck) -> str:
            return "N is odd" if check.sizes["N"] % 2 == 0 else ""

    for store_path, evaluator, sizes in ((new, CheckingToy(), {4, 5}), (again, OddOnly(), {5})):
        session(store_path, evaluator, proposing(11), heard=heard, budget={"evaluations": 5})
        with Store.open(store_path, write=False) as store:
            assert store.verify() == []
            assert store.checks_brought_along() == ()
            taken = store.added_checks()
        assert {each.check.sizes["N"] for each in taken} == sizes
        assert {each.operator for each in taken} == {"testing"}
        later = [fact for fact in facts(store_path, ResultEntry) if fact.seq > taken[-1].seq]
        assert later
        assert all("; hidden checks " in fact.evaluation.key.environment for fact in later)
        assert replayed(store_path, config_of()).fingerprint()
    assert any("refused: N is odd" in event.text for event in heard.events if isinstance(event, Notice))

"""The operator `universal`: the state of its parent and a look decide what a scripted model does."""

import re
from pathlib import Path

import pytest

from archive.inbox import look_text
from archive.journal import InboxEntry, ResultEntry
from archive.store import Store
from evokernel.engine.inbox import LOOK
from evokernel.records.llm import ModelRequest
from operators.llm.templates import BUILT_IN
from tests.support.fakes import ToyLanguage
from tests.support.model_search import facts
from tests.support.template_search import kernel, run_templates, same_state

SEEN = "What you asked to see, the machine code"


class ShownLanguage(ToyLanguage):
    """A toy whose machine code can be looked at."""

    code = "vfmadd231ps ymm0, ymm1, ymm2"

    def hot_loop(self, source: str) -> str:
        return self.code


def curious(request: ModelRequest) -> str:
    """Ask for the machine code where that is offered; what it shows decides the next kernel."""
    last, step = request.messages[-1].text, request.origin.step
    if "machine code" in last and SEEN not in last:
        return "LOOK: machine code"
    return kernel(20 + step if "vfmadd" in last else 11, f"step {step}")


def made(path: Path) -> list[tuple[str, int]]:
    found = [fact.proposal for fact in facts(path, ResultEntry) if fact.proposal.operator == "universal"]
    return [(proposal.rationale, int(re.findall(r"SPEED = (\d+)", proposal.candidate.source)[0])) for proposal in found]


def test_a_look_is_a_fact_before_it_is_told_and_turns_what_is_made(tmp_path: Path) -> None:
    path, plain = tmp_path / "look.db", tmp_path / "plain.db"
    budget = {"evaluations": 3}
    search = run_templates(path, curious, {"universal": 1.0}, language=ShownLanguage(), budget=budget)
    assert all(speed > 20 for _, speed in made(path))
    assert same_state(path, search)
    looks = [fact for fact in facts(path, InboxEntry) if fact.kind == LOOK]
    results = [fact for fact in facts(path, ResultEntry) if fact.proposal.operator == "universal"]
    assert [look.payload["step"] for look in looks] == [result.step for result in results]
    assert all(look.seq < result.seq for look, result in zip(looks, results, strict=True))
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        calls = [stored.call for stored in store.calls.all()]
    assert sorted((call.origin.step, call.ordinal) for call in calls) == [
        (look.payload["step"], n) for look in looks for n in (0, 1)
    ]
    assert all((ShownLanguage.code in call.messages[-1].text) == bool(call.ordinal) for call in calls)
    without = tmp_path / "prompts"
    without.mkdir()
    text = (BUILT_IN / "universal.md.j2").read_text()
    (without / "universal.md.j2").write_text(text.replace("wants: [state, look]", "wants: [state]"))
    run_templates(
        plain, curious, {"universal": 1.0}, language=ShownLanguage(), prompts=str(without), budget={"evaluations": 2}
    )
    assert [speed for _, speed in made(plain)] == [11]


def test_a_look_that_was_taken_before_a_kill_is_told_again(tmp_path: Path) -> None:
    class Crash(BaseException):
        pass

    class Changed(ShownLanguage):
        code = "another compiler"

    def crashing(request: ModelRequest) -> str:
        if request.ordinal == 1:
            raise Crash
        return curious(request)

    path = tmp_path / "toy.db"
    with pytest.raises(Crash):
        run_templates(path, crashing, {"universal": 1.0}, language=ShownLanguage(), budget={"evaluations": 2})
    search = run_templates(path, curious, {"universal": 1.0}, language=Changed(), budget={"evaluations": 2})
    ((_, speed),) = made(path)
    assert speed > 20
    assert len([fact for fact in facts(path, InboxEntry) if fact.kind == LOOK]) == 1
    assert same_state(path, search)
    with Store.open(path, write=False) as store:
        step = next(fact.step for fact in facts(path, ResultEntry) if fact.proposal.operator == "universal")
        assert look_text(store.database, step) == ShownLanguage.code


def test_a_failed_child_of_its_parent_is_mended_first(tmp_path: Path) -> None:
    """`mutate` goes on with the parent where `universal` mends what failed."""
    states: list[str] = []

    def script(request: ModelRequest) -> str:
        last, step = request.messages[-1].text, request.origin.step
        states.append("failure" if "### The broken kernel" in last else "parent")
        return kernel(0 if len(states) == 1 else 10 + step, f"step {step}")

    told = {}
    for name in ("mutate", "universal"):
        states.clear()
        path = tmp_path / f"{name}.db"
        search = run_templates(path, script, {name: 1.0}, budget={"evaluations": 4})
        told[name] = list(states)
        assert same_state(path, search)
    assert told == {"mutate": ["parent"] * 3, "universal": ["parent", "failure", "parent"]}

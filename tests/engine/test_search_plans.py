"""Several plans a call and hypotheses: what a scripted model says there changes which plan is carried out next."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from archive.journal import InboxEntry, InsightEntry, ResultEntry
from archive.store import Store
from evokernel.cli.record import command as record
from evokernel.llm.recordings import ReplyRecording
from evokernel.records.llm import ModelRequest
from tests.support.template_search import kernel, run_templates, same_state

STRATEGIES = {
    "wide loads": ("RISK: 0.9\nNOVELTY: 0.2", "PREDICTED: 2.0x", "loads wait"),
    "wider loads": ("RISK: 80 %\nNOVELTY: 0.1", "PREDICTED: 1.8x", "Loads wait."),
    "split the sum": ("RISK: 0.1\nNOVELTY: 0.9", "PREDICTED: 1.5x", "too few tiles"),
}


def planner(speeds: dict[str, int], *, risky: bool = True) -> Callable[[ModelRequest], str]:
    """Answer in the form that is asked for: plan once, and carry each strategy out with its speed."""
    asked = 0

    def script(request: ModelRequest) -> str:
        nonlocal asked
        prompt = request.messages[-1].text
        if request.origin.operator == "implement":
            title = next(name for name in speeds if f"\n{name}\n" in prompt)
            return kernel(speeds[title], title)
        asked += 1
        several = re.search(r"Give (\d) strategies", prompt)
        if asked > 1:
            return f"TITLE: small change {asked}\nPREDICTED: 1.01x\n\n1. Polish."
        names = list(STRATEGIES)[: int(several[1]) if several else 1]
        said = []
        for name in names:
            estimates, predicted, bottleneck = STRATEGIES[name]
            lines = [f"TITLE: {name}", predicted]
            lines += [estimates] if risky and "RISK:" in prompt else []
            lines += [f"BOTTLENECK: {bottleneck}"] if "BOTTLENECK:" in prompt else []
            said.append("\n".join([*lines, "", f"1. Do {name}."]))
        return "\n\n".join(said)

    return script


def carried_out(path: Path) -> list[str]:
    """The titles of the strategies in the order in which kernels were made with them."""
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        seqs = [
            fact.proposal.insights[-1]
            for fact in store.facts()
            if isinstance(fact, ResultEntry) and fact.proposal.insights
        ]
        return [insight.title for seq in seqs if (insight := store.insight(seq))]


def run(path: Path, speeds: dict[str, int], **changes: Any) -> list[str]:
    search = run_templates(path, planner(speeds), {"plan": 1.0, "implement": 1.0}, plans="mean", **changes)
    assert same_state(path, search)
    return carried_out(path)


def test_of_several_plans_the_least_risky_gain_is_carried_out_first_and_the_others_wait(tmp_path: Path) -> None:
    speeds = {"wide loads": 13, "wider loads": 12, "split the sum": 11}
    alone = run(tmp_path / "one.db", speeds, budget={"evaluations": 2})
    several = run(tmp_path / "three.db", speeds, plans_per_call=3, budget={"evaluations": 4})
    assert alone == ["wide loads"]
    assert several == ["split the sum", "wider loads", "wide loads"]
    with Store.open(tmp_path / "three.db", write=False) as store:
        facts = list(store.facts())
        assert next(fact.insight.title for fact in facts if isinstance(fact, InsightEntry)) == "split the sum"
        handed_in = [fact for fact in facts if isinstance(fact, InboxEntry)]
        assert [fact.payload["title"] for fact in handed_in] == ["wider loads", "wide loads"]
        assert {fact.author for fact in handed_in} == {"plan"}
    recording = tmp_path / "replies.jsonl"
    assert CliRunner().invoke(record, [str(tmp_path / "three.db"), str(recording)]).exit_code == 0
    kept = ReplyRecording.load(recording).steps().values()
    assert {title for each in kept for title in each.insights} >= set(speeds)  # by which a replay finds them


def test_a_refuted_bottleneck_turns_the_choice_and_later_plans_are_told(tmp_path: Path) -> None:
    """A right kernel that is slower says that loads do not wait: the other plan against them loses its turn."""
    speeds = {"wide loads": 9, "wider loads": 12, "split the sum": 11}
    settings: dict[str, Any] = {"plans": "mean", "plans_per_call": 3, "budget": {"evaluations": 3}}
    asked: list[str] = []

    def script(request: ModelRequest) -> str:
        asked.append(request.messages[-1].text)
        return answer(request)

    chosen = {}
    for kept in (False, True):
        answer, path = planner(speeds, risky=False), tmp_path / f"{kept}.db"
        search = run_templates(path, script, {"plan": 3.0, "implement": 1.0}, hypotheses=kept, **settings)
        assert same_state(path, search)
        chosen[kept] = carried_out(path)
    assert chosen == {False: ["wide loads", "wider loads"], True: ["wide loads", "split the sum"]}
    said = (
        "Loads wait: refuted\n- wider loads (expected 1.80x) -> open\n- wide loads (expected 2.00x) -> refuted: 0.90x"
    )
    assert any(said in prompt for prompt in asked)

"""Every built-in operator that asks a model, in a search with a scripted one: prompt, call, kernel, lineage row."""

import asyncio
import math
import re
from pathlib import Path

import pytest

from archive.journal import EmptyStep, InsightEntry, ResultEntry
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import foreign_kernels, make_archipelago, make_operators
from evokernel.engine.search import Search
from evokernel.engine.search_run import Parts
from evokernel.engine.stoppers import stopper_from
from evokernel.languages import make_language
from evokernel.languages.toolchain import run_plain
from evokernel.records.candidate import Candidate
from evokernel.records.llm import ModelRequest
from evokernel.tasks import load_task
from evokernel.testing.scripted import ScriptedTransport
from operators.llm.templates import load_templates
from tests.support.fakes import InstantEvaluator

OPERATORS = tuple(name for name in load_templates() if name != "testing")  # which makes no kernels and no insights
THINK = {"plan", "diagnose", "reflect"}
SOURCE = """\
// {filler}
#include <cstdint>
constexpr int SPEED = {speed};
{extra}extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {{
    for (int64_t i = 0; i < M * N; ++i) c[i] = SPEED;
}}
"""


def source(number: int, *, extra: str = "", filler: int = 20) -> str:
    return SOURCE.format(filler="word " * filler, speed=number, extra=extra)


def speed_of(text: str) -> float | None:
    """The higher the number the faster; every fifth is wrong."""
    found = re.search(r"SPEED = (\d+)", text)
    number = int(found.group(1)) if found else 1
    return None if number % 5 == 0 else math.exp(number / 10 - 3)


def reply(request: ModelRequest) -> str:
    step, operator = request.origin.step, request.origin.operator
    if operator in THINK:
        return f"TITLE: thought {step}\nPREDICTED: 1.4x\n\nEvidence: it is so.\nFix: make it so.\n"
    extra = f"constexpr int EXTRA{step} = 1;  // tune: 1 2\n" if operator == "expose" else ""
    kernel = source(step, extra=extra, filler=1 if operator == "simplify" else 20)
    return f"IDEA: number {step}\nPREDICTED: 1.2x\n\n```cpp\n{kernel}```\n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operators") / "all.db"
    raw = {
        "task": "gemm",
        "device": "cpu",
        "budget": {"evaluations": 70},
        "islands": [
            {"name": "north", "operators": dict.fromkeys(OPERATORS, 1.0)},
            {"name": "south", "operators": dict.fromkeys(OPERATORS, 1.0), "choose": "ucb"},
        ],
        "topology": "full",
        "migration": {"every": 6},
        "in_flight": 1,
    }
    config = RunConfig.model_validate(raw).on("cpu")
    task = load_task("gemm").on("cpu")
    with Store.open(path, write=True) as store:
        model = ScriptedTransport(reply, log=store.calls)
        operators = make_operators(config, model=model)
        foreign = foreign_kernels(config, task)
        parts = Parts(
            task=task,
            language=make_language("cpp", run=run_plain),
            store=store,
            archipelago=make_archipelago(config, operators, foreign=bool(foreign)),
            evaluator=InstantEvaluator(speed_of),
            stopper=stopper_from(config.budget),
            listeners=[],
            model=model,
            asking_at_once=1,
            foreign=foreign,
        )
        asyncio.run(Search(parts, config=config, seeds=[Candidate(source(1), "cpp")], in_flight=1).run())
    return path


@pytest.mark.parametrize("operator", OPERATORS)
def test_its_reply_ends_in_the_lineage(path: Path, operator: str) -> None:
    with Store.open(path, write=False) as store:
        facts = list(store.facts())
        calls = [call for call in store.calls.all() if call.call.origin.operator == operator]
    assert calls, f"{operator} was never asked"
    assert all(call.result is not None for call in calls)
    prompt = "\n".join(message.text for message in calls[0].call.messages)
    assert 'extern "C" void run(const float* a' in prompt or operator in THINK
    if operator in THINK:
        learned = [fact for fact in facts if isinstance(fact, InsightEntry) and fact.no_candidate.operator == operator]
        assert learned
        assert learned[0].insight.title.startswith("thought")
        return
    made = [fact.proposal for fact in facts if isinstance(fact, ResultEntry) and fact.proposal.operator == operator]
    refused = [
        fact.no_candidate.reason
        for fact in facts
        if isinstance(fact, EmptyStep) and fact.no_candidate.operator == operator
    ]
    assert made, refused
    assert made[0].rationale.startswith(f"{operator}: ")
    assert "number" in made[0].rationale
    assert made[0].usage.model == "scripted"
    assert bool(made[0].parents) == (operator not in ("draft", "port"))
    known = {fact.proposal.candidate.id for fact in facts if isinstance(fact, ResultEntry)}
    assert set(made[0].parents) <= known


def test_the_store_is_sound_and_its_words_were_used(path: Path) -> None:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        proposals = [fact.proposal for fact in store.facts() if isinstance(fact, ResultEntry)]
    assert any(proposal.insights for proposal in proposals if proposal.operator == "implement")
    assert any(proposal.inspirations for proposal in proposals)
    mended = [proposal for proposal in proposals if proposal.operator == "repair"]
    assert all(len(proposal.parents) == 1 for proposal in mended)
    assert any(len(proposal.parents) > 1 for proposal in proposals if proposal.operator in ("crossover", "contrast"))

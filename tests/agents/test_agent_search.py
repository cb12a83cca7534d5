"""A whole search whose operator asks a scripted agent in the real sandbox, and its replay."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from archive.journal import EmptyStep, InboxEntry, ResultEntry
from archive.store import Store
from archive.views.effort import device_seconds, efforts_by_pair
from evokernel.agents.services import ServiceReference
from evokernel.agents.transport import AgentTransport
from evokernel.config.models import ModelConfig
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_operators
from evokernel.engine.search import Search
from evokernel.llm.assemble import make_models
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.remarks import RemarkKind
from tests.agents.scripted import CLIENT, agent
from tests.cli.asked import SEED, asking_config
from tests.support.engine import replayed, toy_search
from tests.support.fakes import InstantEvaluator

WORKS = (
    CLIENT
    + """
import pathlib, re
(parent,) = pathlib.Path("parents").iterdir()
source = parent.read_text()
assert "toy" in pathlib.Path("task.md").read_text()
tried = []
for a in (16, 2, 8):
    kernel = re.sub("A = [0-9]+", f"A = {a}", source).replace("// a toy", f"// by an agent, {len(source)}")
    verdict = call("evaluate", source=kernel)
    if isinstance(verdict, dict) and verdict["status"] == "ok":
        tried.append((verdict["speedup"]["value"], kernel))
call("hint", text="A = 8 is fast")
fence = chr(96) * 3
pathlib.Path("reply.md").write_text(f"IDEA: eight at once\\n{fence}cpp\\n{max(tried)[1]}\\n{fence}\\n")
print("tried", len(tried))
"""
)
BUDGET = {"evaluations": 2}


class CountingEvaluator(InstantEvaluator):
    """Counts how often each source is judged."""

    def __init__(self) -> None:
        super().__init__()
        self.judged: list[tuple[str, Fidelity]] = []

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        self.judged.append((request.candidate.id, request.budget))
        return await super().evaluate(request)


def config_of(entry: ModelConfig, **budget: float) -> RunConfig:
    return asking_config(
        budget={**BUDGET, "calls": 6, **budget},
        islands=[{"name": "one", "operators": {"mutate": 1.0}}],
        models=[entry.model_dump(exclude_unset=True)],
        in_flight=1,
    )


def search(
    path: Path, config: RunConfig, evaluator: CountingEvaluator | None = None
) -> tuple[str, Search, CountingEvaluator]:
    services, evaluator = ServiceReference(), evaluator or CountingEvaluator()
    with Store.open(path, write=True) as store:
        models = make_models(
            config,
            log=store.calls,
            notify=lambda text: None,
            make_agent=lambda model, redactor: AgentTransport(
                model, redactor=redactor, services=services, environment=os.environ
            ),
        )
        operators = make_operators(config, model=models)
        engine = toy_search(store, config, evaluator, source=SEED, operators=operators, model=models, agents=services)
        return asyncio.run(engine.run()), engine, evaluator


def test_an_agent_tries_kernels_and_hands_in_its_best(tmp_path: Path) -> None:
    path, config = tmp_path / "toy.db", config_of(agent(tmp_path, WORKS))
    reason, engine, evaluator = search(path, config)
    assert reason == "budget of 2 evaluations used"
    with Store.open(path, write=False) as store:
        facts = list(store.facts())
        assert store.verify() == []
        remarks = store.remarks.all([RemarkKind.AGENT_EVENT])
        calls = list(store.calls.all())
    results = [fact for fact in facts if isinstance(fact, ResultEntry)]
    assert results[1].proposal.rationale == "mutate: eight at once"
    assert results[1].proposal.usage.model == "coder"
    looks = [fact.payload for fact in facts if isinstance(fact, InboxEntry) and fact.kind == "look"]
    first = [look for look in looks if look["step"] == results[1].step]
    assert [look["verdict"]["status"] for look in first] == ["numerical", "ok", "ok"]
    assert len({look["verdict"]["candidate"] for look in first} & {each.proposal.candidate.id for each in results}) == 1
    name = results[1].proposal.candidate.id
    assert evaluator.judged.count((name, Fidelity.QUICK)) == 1  # for the agent, and not again when it was handed in
    assert evaluator.judged.count((name, Fidelity.PRECISE)) == 1
    assert any(fact.kind == "hint" for fact in facts if isinstance(fact, InboxEntry))
    assert remarks[0].detail["stdout"] == "tried 2\n"
    assert all("IDEA: eight at once" in call.result.text for call in calls if call.result)
    operators = make_operators(config)
    assert replayed(path, config, operators).fingerprint() == engine.state.fingerprint()


class TimedEvaluator(CountingEvaluator):
    """Every evaluation takes the device 2 s."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        return replace(await super().evaluate(request), metrics={"check_s": 0.5, "time_s": 1.5})


@pytest.mark.parametrize(
    "ends", ["", "pathlib.Path('reply.md').unlink(); raise SystemExit('left')"], ids=["answers", "leaves"]
)
def test_the_device_time_of_what_an_agent_tries_counts(tmp_path: Path, ends: str) -> None:
    path, config = tmp_path / "toy.db", config_of(agent(tmp_path, WORKS + ends), calls=2)
    _, engine, evaluator = search(path, config, TimedEvaluator())
    with Store.open(path, write=False) as store:
        assert device_seconds(store) == 2.0 * len(evaluator.judged)
        efforts = {(each.operator, each.model): each for each in efforts_by_pair(store)}
        looks = [fact.payload for fact in store.facts() if isinstance(fact, InboxEntry) and fact.kind == "look"]
        handed_in = {fact.proposal.candidate.id for fact in store.facts() if isinstance(fact, ResultEntry)}
    unused = [look for look in looks if look["device_s"] and look["verdict"]["candidate"] not in handed_in]
    pair, record = efforts["mutate", "coder"], engine.fold.history.pair("mutate", "coder")
    assert len(unused) >= 2
    assert pair.device_s == 2.0 * (len(unused) + len(handed_in) - 1)  # the seed is nobody's
    assert record.cost_usd > 0
    assert not engine.fold.history.looks
    assert replayed(path, config, make_operators(config)).fingerprint() == engine.state.fingerprint()


LEAVES = (
    CLIENT
    + """
said = {"name": "evaluate", "arguments": {"source": "// by an agent that leaves"}}
print(json.dumps({"jsonrpc": "2.0", "id": 1000, "method": "tools/call", "params": said}), file=tools.stdin, flush=True)
call("lineage", candidate="ffff")
raise SystemExit("left")
"""
)


class WaitingEvaluator(CountingEvaluator):
    """Judges what an agent asks about once a call of an agent has ended, and counts what was broken off."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.broken_off = 0
        self._path = path

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        try:
            while "agent that leaves" in request.candidate.source and not self._call_has_ended():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        return await super().evaluate(request)

    def _call_has_ended(self) -> bool:
        with Store.open(self._path, write=False) as store:
            return any(each.result for each in store.calls.all())


def test_an_agent_that_leaves_breaks_off_no_work_of_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "toy.db"
    evaluator = WaitingEvaluator(path)
    search(path, config_of(agent(tmp_path, LEAVES), calls=4), evaluator)
    assert Candidate("// by an agent that leaves", "cpp").id in {name for name, _ in evaluator.judged}
    assert evaluator.broken_off == 0


def test_one_that_crashes_costs_its_steps_and_what_was_reserved_for_them(tmp_path: Path) -> None:
    path = tmp_path / "toy.db"
    config = config_of(agent(tmp_path, "raise SystemExit('broken')", agent_dollars=0.1), dollars=0.25)
    reason, engine, _ = search(path, config)
    assert "budget of $0.25 used" in reason
    with Store.open(path, write=False) as store:
        assert (store.spent().calls, store.spent().cost_usd) == (2, pytest.approx(0.2))
        reasons = [fact.no_candidate.reason for fact in store.facts() if isinstance(fact, EmptyStep)]
        assert store.verify() == []
    assert len(reasons) == 2
    assert all("exit code 1 and without an answer; it said last: broken" in reason for reason in reasons)
    assert engine.account.results == 1


@pytest.mark.parametrize("setting", ["agent_hosts", "agent_evaluations"])
def test_settings_of_agents_are_refused_elsewhere(setting: str) -> None:
    entry = {"name": "main", "model": "openai/x", setting: 3 if setting == "agent_evaluations" else ["a.example"]}
    with pytest.raises(ValueError, match=f"{setting} is a setting of an `agent`; remove it"):
        RunConfig.model_validate({**asking_config().model_dump(), "models": [entry]})

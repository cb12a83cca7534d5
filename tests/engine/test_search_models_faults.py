"""What may go wrong between a search and its models, and must not: outages, twins, endless words, false alarms."""

import asyncio
from pathlib import Path

import pytest

from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.engine.assemble import check_roles, make_operators
from evokernel.errors import ConfigError, ModelsUnavailable
from evokernel.protocols import LanguageModel, Operator
from evokernel.records.llm import ModelRequest
from evokernel.records.step import ContextNeed
from tests.support.engine import Heard, toy_config
from tests.support.model_operators import ToyModelOperator
from tests.support.model_search import facts, mutate, run, upwards


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.db"


def test_models_that_do_not_answer_one_role_are_still_asked_for_another(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        plan = ToyModelOperator("plan", model, ContextNeed.STRATEGIES)
        plan.role = "think"
        return {"mutate": ToyModelOperator("mutate", model), "plan": plan}

    def script(request: ModelRequest) -> str:
        if request.role == "think":
            raise ModelsUnavailable("no model thinks", final=True)
        return upwards(request)

    reason, _, _ = run(path, script, make, budget={"evaluations": 10})
    assert reason == "budget of 10 evaluations used"


def test_what_nobody_answered_is_no_failed_attempt(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {"repair": ToyModelOperator("repair", model, ContextNeed.BROKEN, parents=0), **mutate(model)}

    def script(request: ModelRequest) -> str:
        if request.origin.operator == "repair":
            raise ModelsUnavailable("an outage", final=True)
        return "A=16 B=1" if request.origin.step == 2 else upwards(request)

    _, search, _ = run(path, script, make, budget={"evaluations": 6}, repairs=1)
    assert len(search.state.archipelago.history.failures.repairable({"repair", "mutate"}, repairs=1)) == 1
    assert facts(path, EmptyStep) == []


def test_one_kernel_from_several_models_at_once_is_judged_once(path: Path) -> None:
    async def script(request: ModelRequest) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "A=2 B=2" if request.origin.step < 6 else upwards(request)

    run(path, script, budget={"evaluations": 5})
    made = [fact.proposal.candidate.id for fact in facts(path, ResultEntry)]
    assert len(made) == len(set(made))


def test_ten_replies_with_one_fault_end_the_asking_and_rules_go_on(path: Path) -> None:
    asked: list[ModelRequest] = []

    def script(request: ModelRequest) -> str:
        asked.append(request)
        return "I am sorry"

    heard = Heard()
    reason, search, _ = run(path, script, heard=heard, rules=("tune",), budget={"evaluations": 24})
    assert reason == "budget of 24 evaluations used"
    assert search.account.results == 24
    assert 10 <= len(asked) <= 12  # two wait for the model at once
    (note,) = [note for note in heard.notes if "models are asked no more" in note]
    assert "10 replies of models in a row had the same fault, no values in the reply" in note


def test_a_failure_is_mended_by_one_at_a_time(path: Path) -> None:
    at_work: list[str] = []

    def make(model: LanguageModel) -> dict[str, Operator]:
        return {"repair": ToyModelOperator("repair", model, ContextNeed.BROKEN, parents=0), **mutate(model)}

    async def script(request: ModelRequest) -> str:
        if request.origin.operator != "repair":
            return "A=16 B=1" if request.origin.step == 2 else upwards(request)
        (name,) = request.origin.parents
        assert name not in at_work
        at_work.append(name)
        for _ in range(30):
            await asyncio.sleep(0)
        at_work.remove(name)
        return "nothing"

    run(path, script, make, budget={"evaluations": 8}, repairs=3)


def test_lessons_gain_by_right_repairs_and_not_by_drafts(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {
            "reflect": ToyModelOperator("reflect", model),
            "draft": ToyModelOperator("draft", model, parents=0),
            "repair": ToyModelOperator("repair", model, ContextNeed.BROKEN, parents=0),
            "mutate": ToyModelOperator("mutate", model),
        }

    def script(request: ModelRequest) -> str:
        step = request.origin.step
        match request.origin.operator:
            case "reflect":
                return f"lesson: number {step}"
            case "mutate":
                return f"A=16 B={1 + step % 6}"  # wrong
        return upwards(request)

    _, search, _ = run(path, script, make, budget={"evaluations": 14})
    results = facts(path, ResultEntry)
    right = {fact.proposal.operator for fact in results if fact.evaluation.ok and fact.proposal.insights}
    gains = [gain for known in search.state.archipelago.history.insights.all.values() for gain in known.gains]
    wrong = [seq for f in results if not f.evaluation.ok for seq in f.proposal.insights]
    mended = [
        seq for f in results if f.evaluation.ok and f.proposal.operator == "repair" for seq in f.proposal.insights
    ]
    assert "draft" in right
    assert gains.count(None) == len(wrong)
    assert len(gains) == len(wrong) + len(mended)


def test_a_banned_program_never_leads_again(path: Path) -> None:
    run(path, upwards, budget={"evaluations": 8})
    with Store.open(path, write=False) as store:
        best = store.best(1)[0].candidate.candidate
    Store.inbox_put(path, "ban", {"candidate": best.id})
    Store.inbox_put(path, "source", {"source": best.source.replace("a toy", "the same toy")})
    _, search, _ = run(path, upwards, budget={"evaluations": 12})
    history = search.state.archipelago.history
    assert search.account.lead is not None
    assert history.best is not None
    assert search.account.lead.program_hash == history.best.program_hash
    assert search.account.lead.program_hash not in history.barred


def test_a_session_that_was_killed_after_a_hint_raises_no_alarm(path: Path) -> None:
    run(path, upwards, budget={"evaluations": 6})
    Store.inbox_put(path, "hint", {"text": "go on"})
    with Store.open(path, write=True) as store:
        store.session_start()
        assert store.take_inbox()  # and killed
    heard = Heard()
    run(path, upwards, heard=heard, budget={"evaluations": 8})
    assert not any("another state" in note for note in heard.notes)


def test_an_operator_whose_role_no_model_of_its_island_has_is_refused() -> None:
    islands = [{"name": "one", "operators": {"plan": 1}, "models": ["coder"]}]
    models = [{"name": "coder", "model": "x/y", "roles": ["code"]}, {"name": "wise", "model": "x/z"}]
    config = toy_config(islands=islands, models=models)
    with pytest.raises(ConfigError, match="'one': plan asks a model with the role 'think', and none of coder has it"):
        check_roles(config, make_operators(config))


def test_models_that_no_operator_asks_are_refused_with_the_fix() -> None:
    models = [{"name": "main", "model": "openai/gpt-5"}]
    config = toy_config(models=models)
    with pytest.raises(ConfigError, match=r"main would never be asked.*add some to `islands`.*use --model"):
        check_roles(config, make_operators(config))

"""The choice of operator and model together: gain for cost, on scripted models of known gain and price."""

import asyncio
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archive.journal import ResultEntry
from archive.store import Store
from archive.views.effort import efforts_by_pair
from evokernel.config.models import ModelConfig
from evokernel.engine.model_gate import PATIENCE
from evokernel.engine.search import Search
from evokernel.llm.transport import HopelessModel, HopelessRequest, Price, TransportReply
from evokernel.protocols import LanguageModel, Operator
from evokernel.records.llm import Message, ModelRequest
from evokernel.records.step import Answer, Context, Draft, Prompt, UnusableReply
from tests.llm.making import Ensemble
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator
from tests.support.model_operators import ToyModelOperator

Pair = tuple[str, str]
STEPS = 100
LEVEL = re.compile(r"// level (-?\d+)\n")
SEED = "// level 0\nvoid run() {}\n"
PRICES = {"cheap": 0.002, "strong": 0.05}
CHEAP_BEST = {("mutate", "cheap"): 4, ("refine", "cheap"): 0, ("mutate", "strong"): 6, ("refine", "strong"): 0}
STRONG_BEST = {("mutate", "cheap"): 0, ("refine", "cheap"): 0, ("mutate", "strong"): 2, ("refine", "strong"): 50}


class Climb(ToyModelOperator):
    """The kernel is a number of hundredths of a natural logarithm; the reply says how many to add."""

    def prompt(self, context: Context) -> Prompt:
        found = LEVEL.search(context.parents[0].candidate.source)
        assert found
        return Prompt((Message("user", f"{self.name} {found[1]} {context.step}"),), context)

    def read(self, reply: str, prompt: Prompt) -> Answer:
        assert prompt.context.selection is not None
        if not reply:
            return UnusableReply("no kernel in the reply")
        source = f"// level {reply}\n// step {prompt.context.step}\nvoid run() {{}}\n"
        return Draft(source, prompt.context.selection.origin.parents, f"{self.name}: {reply}")

    async def propose(self, context: Context) -> Answer | None:
        assert context.selection is not None
        prompt = self.prompt(context)
        request = ModelRequest(context.selection.origin, 0, self.role, prompt.messages, model=context.selection.model)
        reply = await self._model.complete(request)
        answer = self.read(reply.text, prompt)
        assert isinstance(answer, Draft | UnusableReply)
        return type(answer)(
            **{name: getattr(answer, name) for name in answer.__slots__}
            | {"usage": replace(reply.usage, model=reply.model)}
        )


class Oracle:
    """A model whose gains are known: one reply of two is a better kernel, whatever it costs."""

    def __init__(self, name: str, gains: Mapping[Pair, int], *, lost: bool = False, fails: bool = False) -> None:
        self.name, self.gains, self.lost, self.fails = name, gains, lost, fails

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        if self.lost:
            raise HopelessModel("no such model")
        operator, level, step = request.messages[-1].text.split()
        if self.fails:
            raise HopelessRequest(f"no reply at step {step}", billed=True)
        added = self.gains[operator, self.name] if zlib.crc32(step.encode()) % 2 else 0
        text = str(int(level) + added) if added else str(int(level) - 3)
        return TransportReply(text, prompt_tokens=200, completion_tokens=100, cost_usd=PRICES[self.name])

    async def close(self) -> None:
        return


def speed(source: str) -> float | None:
    found = LEVEL.search(source)
    return math.exp(int(found[1]) / 100) if found else None


def config_for(choose: str) -> Any:
    return toy_config(
        islands=[{"name": "one", "operators": {"mutate": 1.0, "refine": 1.0}, "choose": choose}],
        models=[{"name": name, "model": "openai/stub"} for name in PRICES],
        budget={"evaluations": STEPS},
        in_flight=1,
    )


def operators_of(model: LanguageModel) -> dict[str, Operator]:
    return {name: Climb(name, model) for name in ("mutate", "refine")}


def search_with(path: Path, choose: str, gains: Mapping[Pair, int], *, lost: str = "", fails: str = "") -> Search:
    with Store.open(path, write=True) as store:
        seats = [
            (ModelConfig(name=name, model="openai/stub"), Oracle(name, gains, lost=name == lost, fails=name == fails))
            for name in PRICES
        ]
        model = Ensemble(*seats, log=store.calls, price=Price(0.0, 2e-6)).models  # type: ignore[arg-type]
        made = toy_search(
            *(store, config_for(choose), InstantEvaluator(speed)),
            source=SEED,
            heard=Heard(),
            operators=operators_of(model),
            model=model,
        )
        asyncio.run(made.run())
        return made


def choices(path: Path) -> list[Pair]:
    with Store.open(path, write=False) as store:
        told = [fact.proposal for fact in store.facts() if isinstance(fact, ResultEntry)]
    return [(each.operator, each.usage.model) for each in told if each.operator != "seed"]


def regret(chosen: list[Pair], gains: Mapping[Pair, int]) -> float:
    """Return the gain lost, in hundredths of a natural logarithm, to asking the best pair for the same dollars."""
    best = max(gain / PRICES[pair[1]] for pair, gain in gains.items())
    return sum(best * PRICES[pair[1]] - gains[pair] for pair in chosen) / 2


@pytest.mark.parametrize(
    ("gains", "best"), [(CHEAP_BEST, ("mutate", "cheap")), (STRONG_BEST, ("refine", "strong"))], ids=["cheap", "strong"]
)
def test_the_pair_that_gains_most_for_its_money_is_asked_and_a_hopeless_one_hardly(
    tmp_path: Path, gains: dict[Pair, int], best: Pair
) -> None:
    search = search_with(tmp_path / "pairs.db", "pairs", gains)
    search_with(tmp_path / "uniform.db", "shares", gains)
    chosen, uniform = choices(tmp_path / "pairs.db"), choices(tmp_path / "uniform.db")
    assert chosen != uniform
    assert regret(chosen, gains) < 0.5 * regret(uniform, gains)
    assert Counter(chosen).most_common(1)[0][0] == best
    late = Counter(chosen[STEPS // 3 :])
    hopeless = [pair for pair, gain in gains.items() if not gain]
    assert all(0 < late[pair] < len(chosen) // 12 for pair in hopeless)
    again = replayed(tmp_path / "pairs.db", config_for("pairs"), search.fold.archipelago.operators)
    assert again.fingerprint() == search.state.fingerprint()


def test_a_model_that_is_lost_is_left_out_and_the_other_one_answers(tmp_path: Path) -> None:
    search_with(tmp_path / "lost.db", "pairs", CHEAP_BEST, lost="cheap")
    chosen = Counter(choices(tmp_path / "lost.db"))
    assert {model for _, model in chosen} == {"strong"}
    assert chosen["mutate", "strong"] > chosen["refine", "strong"]


def test_a_model_that_fails_counts_as_tried_at_its_own_cost_though_another_one_answers(tmp_path: Path) -> None:
    path = tmp_path / "fails.db"
    search = search_with(path, "pairs", CHEAP_BEST, fails="cheap")
    assert {model for _, model in choices(path)} == {"strong"}
    with Store.open(path, write=False) as store:
        efforts = {(each.operator, each.model): each for each in efforts_by_pair(store)}
        failed = Counter(each.call.origin.operator for each in store.calls.all() if each.call.model == "cheap")
        paid = store.paid().cost_usd
    for operator in ("mutate", "refine"):
        record, effort = search.fold.history.pair(operator, "cheap"), efforts[operator, "cheap"]
        assert effort.tries == failed[operator] > 0
        assert record.gain == effort.gain == 0
        assert min(record.count, record.cost_usd, effort.cost_usd) > 0
    assert sum(each.cost_usd for each in efforts.values()) == pytest.approx(paid)
    answered = search.fold.history.operators["one"]
    assert sum(record.count for record in answered.values()) == len(choices(path))  # a step is one answer
    again = replayed(path, config_for("pairs"), search.fold.archipelago.operators)
    assert again.fingerprint() == search.state.fingerprint()


def test_failures_of_the_only_model_are_not_free(tmp_path: Path) -> None:
    path = tmp_path / "alone.db"
    search = search_with(path, "pairs", CHEAP_BEST, fails="cheap", lost="strong")
    assert search.gate.lost_reason == f"none of the last {PATIENCE} replies of models gave a new kernel"
    with Store.open(path, write=False) as store:
        paid = store.paid().cost_usd
    answered = search.fold.history.operators["one"]
    assert sum(record.count for record in answered.values()) == PATIENCE
    assert sum(record.cost_usd for record in answered.values()) == pytest.approx(paid)
    assert paid > 0
    again = replayed(path, config_for("pairs"), search.fold.archipelago.operators)
    assert again.fingerprint() == search.state.fingerprint()

"""A whole search whose model, asked through litellm on loopback, does everything wrong that models do."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from archive.file.texts import unpack
from archive.journal import Fact, ResultEntry
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_operators
from evokernel.engine.search import Search
from evokernel.llm.assemble import make_models
from evokernel.llm.waiting import Clock
from evokernel.protocols import Operator
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Stage, Status
from evokernel.records.events import Event, ResultCommitted
from evokernel.records.llm import CallStatus, StoredCall
from operators.llm.replies.words import split
from tests.e2e.misbehaviour import INJECTION, Misbehaving, kernel, wrong_key
from tests.llm.endpoint import Endpoint, endpoint
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator

KEYS = {"STUB_KEY": "sk-stub-0123456789", "STERN_KEY": "sk-stern-0123456789"}
PRICE = {"prompt_usd_per_mtok": 10, "completion_usd_per_mtok": 40}
AMPLE: dict[str, Any] = {"evaluations": 100, "dollars": 200, "tokens": 10_000_000, "calls": 1000}
MOST_TOKENS = 600
HASTE = 200


class Unhurried(InstantEvaluator):
    """Judges a kernel in the time of a call, so that rules do not use up the budget while a model is asked."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        await asyncio.sleep(0.05)
        try:
            return await super().evaluate(request)
        except ValueError as error:  # put together of two replies, it declares something twice
            key = self.identity.key(request.program_hash, request.budget)
            return Evaluation(key, request.candidate.id, Status.STATIC_REJECT, Stage.STATIC, feedback=str(error))


class Hasty(Clock):
    """A clock that runs fast, so that back-off and rests are over in a moment."""

    def now_s(self) -> float:
        return HASTE * time.monotonic()

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds / HASTE)


class Crash(Heard):
    """Ends a session in the middle of things, as soon as it has heard of so many results."""

    def __init__(self, results: int) -> None:
        super().__init__()
        self.left = results
        self.work: asyncio.Task[str] | None = None

    def hear(self, event: Event) -> None:
        super().hear(event)
        self.left -= isinstance(event, ResultCommitted)
        if isinstance(event, ResultCommitted) and self.left == 0 and self.work is not None:
            self.work.cancel()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models.db"


@pytest.fixture
def stern() -> Iterator[Endpoint]:
    with endpoint(wrong_key) as served:
        yield served


def config_of(served: Endpoint, stern: Endpoint, **budget: Any) -> RunConfig:
    common = {"model": "hosted_vllm/stub", "max_tokens": MOST_TOKENS, "price": PRICE, "timeout_s": 1.0}
    return toy_config(
        budget={**AMPLE, **budget},
        islands=[
            {"name": "ideas", "operators": {"mutate": 2, "refine": 2, "crossover": 1, "repair": 1, "tune": 0.5}},
            {"name": "plans", "operators": {"plan": 1, "implement": 2, "reflect": 1, "contrast": 1, "tune": 0.5}},
        ],
        models=[
            {"name": "stub", "api_base": served.url, "key": "STUB_KEY", "retries": 2, **common},
            {"name": "stern", "api_base": stern.url, "key": "STERN_KEY", **common},
        ],
    )


def session(path: Path, config: RunConfig, *, crash_after: int = 0) -> tuple[str, Search, Mapping[str, Operator]]:
    """Run one session of a search, to its end or to a crash after so many results."""
    crash, clock = Crash(crash_after), Hasty()

    async def scenario(search: Search) -> str:
        crash.work = asyncio.create_task(search.run())
        try:
            return await crash.work
        except asyncio.CancelledError:
            return "crashed"

    with Store.open(path, write=True) as store:
        model = make_models(config, log=store.calls, notify=lambda text: None, clock=clock)
        operators = make_operators(config, model=model)
        search = toy_search(
            *(store, config, Unhurried()),
            source=kernel(0, words=f"``` {INJECTION}"),
            heard=crash,
            operators=operators,
            model=model,
            clock=clock.now_s,
        )
        return asyncio.run(scenario(search)), search, operators


def read(path: Path) -> tuple[list[Fact], list[StoredCall]]:
    """Return the facts and the calls of a sound store."""
    with closing(Store.open(path, write=False)) as store:
        assert store.verify() == []
        return list(store.facts()), list(store.calls.all())


def everything_in(path: Path) -> bytes:
    """Return the bytes of a store, and all that it holds as it was before it was compressed."""
    found = [each.read_bytes() for each in sorted(path.parent.iterdir()) if each.name.startswith(path.name)]
    with closing(sqlite3.connect(path)) as database:
        texts = [unpack(body) for (body,) in database.execute("SELECT body FROM texts")]
        found += [text.encode() for text in texts] + [line.encode() for line in database.iterdump()]
    return b"\n".join(found)


def keeps_its_budget(path: Path, config: RunConfig, bill: list[tuple[int, int]]) -> None:
    """What is written down is no less than a provider could charge, and no more than is allowed."""
    with Store.open(path, write=False) as store:
        spent = store.calls.spending()
    budget = config.budget
    assert spent.calls <= (budget.calls or 0)
    assert sum(prompt + reply for prompt, reply in bill) <= spent.tokens <= (budget.tokens or 0)
    charged = sum(prompt * 10e-6 + reply * 40e-6 for prompt, reply in bill)
    assert charged <= spent.cost_usd + 1e-9
    assert spent.cost_usd <= (budget.dollars or 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_search_survives_whatever_a_model_does(path: Path, stern: Endpoint, seed: int) -> None:
    model, before = Misbehaving(seed), list[Fact]()
    with endpoint(*model.deeds(40)) as served:
        config = config_of(served, stern)
        for crash_after in (5, 20, 0):
            reason, search, operators = session(path, config, crash_after=crash_after)
            assert reason == ("crashed" if crash_after else "budget of 100 evaluations used")
            facts, calls = read(path)
            assert facts[: len(before)] == before
            assert all(call.result is not None for call in calls)
            assert len(served.asked) + len(stern.asked) <= len(calls), "a request was made that nobody knows of"
            before = facts
        assert replayed(path, config, operators).fingerprint() == search.state.fingerprint()
    assert set(model.done) == model.deck, "the search was over before the model had done everything"
    assert {call.result.status for call in calls if call.result} == set(CallStatus) - {CallStatus.OPEN}
    keeps_its_budget(path, config, model.bill)
    results = [fact for fact in facts if isinstance(fact, ResultEntry)]
    assert len({fact.step for fact in results}) == len(results)
    assert {fact.proposal.operator for fact in results} > {"seed", "tune"}, "nothing that a model said was judged"
    stored = everything_in(path)
    assert b"you called me with Bearer [key]" in stored
    assert not any(key.encode() in stored for key in KEYS.values())
    shown = [asked["messages"][1]["content"] for asked in served.asked]
    assert any(INJECTION in text for text in shown)
    assert not any(INJECTION in split(text)[1] for text in shown), "a kernel spoke outside of its block"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "budget", "reason"),
    [
        (4, {"calls": 25}, "budget of 25 calls used"),
        (5, {"tokens": 150_000}, "budget of 150000 tokens used"),
        (6, {"dollars": 2.0}, "budget of $2 used"),
    ],
    ids=["calls", "tokens", "dollars"],
)
def test_no_budget_is_passed(path: Path, stern: Endpoint, seed: int, budget: dict[str, Any], reason: str) -> None:
    model = Misbehaving(seed)
    with endpoint(*model.deeds(40)) as served:
        config = config_of(served, stern, evaluations=10_000, **budget)
        assert session(path, config, crash_after=8)[0] == "crashed"
        keeps_its_budget(path, config, model.bill)
        for _ in range(2):  # and it stays used
            assert session(path, config)[0].startswith(reason)
            keeps_its_budget(path, config, model.bill)
        _, calls = read(path)
        assert len(served.asked) + len(stern.asked) <= len(calls)

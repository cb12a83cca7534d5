"""Kills (-9) of the whole process group of a real search by rules and by a model; it is resumed each time."""

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from archive.journal import EvaluationEntry, Fact, ResultEntry
from archive.store import Store
from evokernel.config.load import load_config
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.state_fold import StateFold
from evokernel.errors import StoreError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.records.evaluation import Status
from evokernel.records.llm import CallStatus, Spending, StoredCall
from evokernel.testing.replay import replay_store
from operators.llm.operator import GO_ON
from tests.e2e.kill_and_resume import children, kill_group, log_of, start, wait_for_no_children
from tests.llm.endpoint import Endpoint, Handler, endpoint, says
from tests.support.processes import take_orphans
from tests.support.serving import wait_until

HERE = Path(__file__).parent
SEED = (HERE.parents[1] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp").read_text(encoding="utf-8")
DELAY_S = 0.3
STARTS_WITHIN_S = 900.0
CONFIG = """
task: {task}
seed: 7
store: {store}
budget: {{evaluations: 100000, dollars: 1000}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
models:
  - {{name: stub, model: hosted_vllm/stub, api_base: "{url}", concurrency: 3,
     price: {{prompt_usd_per_mtok: 10, completion_usd_per_mtok: 40}}}}
islands:
  - {{name: one, operators: {{mutate: 1, refine: 1, plan: 0.5, rewrite: 1}}}}
  - {{name: two, operators: {{mutate: 1, crossover: 1, repair: 1, tune: 1, blend: 0.2}}, selector: {{kind: explore}}}}
migration: {{every: 7}}
reset_after: 20
"""
_NUMBER = re.compile(r"reply (\d+)")
TRIAL = "Answer with one word: ready"
"""The call that tries a model before each session; it is in no store."""


class Slow:
    """Answers after a while, each time something else; every second one is cut off in the middle of the code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self.continued = 0
        """How often the rest of a reply was asked for."""
        self.answers = threading.Event()
        """Clear while a request for the rest of a reply waits, so that a kill is sure to come before its answer."""
        self.answers.set()

    def __call__(self, handler: Handler) -> None:
        *_, before, last = (message["content"] for message in [{"content": ""}, *handler.asked["messages"]])
        with self._lock:
            self._count += 1
            self.continued += last == GO_ON
            number = self._count
        time.sleep(DELAY_S)
        if last == GO_ON:
            self.answers.wait()
            whole = reply(int(_NUMBER.findall(before)[0]))
            says(f"{whole[len(before) :]}\nThat was reply {number}.")(handler)
        elif number % 2 == 0:
            whole = reply(number)
            says(whole[: len(whole) // 2], finish="length")(handler)
        else:
            says(reply(number))(handler)


def reply(number: int) -> str:
    """Return a reply with a kernel, or with the words of a strategy."""
    title = f"IDEA: reply {number}\nPREDICTED: 1.1x\nTITLE: reply {number}\n"
    return f"{title}\n```cpp\n{SEED}\nconstexpr int REPLY = {number};\n```\n"


@pytest.fixture
def ours() -> Iterator[list[str]]:
    """Become the parent of every orphan, so that none can hide; gives the children that other tests started."""
    take_orphans(True)
    yield children()
    take_orphans(False)


@dataclass
class Seen:
    """What the store held when it was looked at."""

    facts: list[Fact] = field(default_factory=list)
    leases: set[int] = field(default_factory=set)
    ended: dict[int, StoredCall] = field(default_factory=dict)
    open: int = 0
    interrupted: int = 0
    spent: Spending = field(default_factory=Spending)

    @property
    def steps(self) -> list[int]:
        """The steps that have a result."""
        return [fact.step for fact in self.facts if isinstance(fact, ResultEntry)]


def look(path: Path) -> Seen:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        calls = list(store.calls.all())
        ended = {call.number: call for call in calls if call.result is not None}
        leases = {proposal.step for proposal in store.open_leases()}
        interrupted, spent = len(store.calls.interrupted()), store.calls.spending()
        return Seen(list(store.facts()), leases, ended, len(calls) - len(ended), interrupted, spent)


def nothing_is_lost(before: Seen, now: Seen) -> None:
    assert now.facts[: len(before.facts)] == before.facts, "a committed fact was lost or changed"
    assert not now.leases & {*now.steps}
    assert before.leases <= now.leases | {*now.steps}, "work in flight was forgotten"
    assert {number: now.ended.get(number) for number in before.ended} == before.ended
    assert now.spent.calls >= before.spent.calls
    assert now.spent.tokens >= before.spent.tokens
    assert now.spent.cost_usd >= before.spent.cost_usd


@dataclass
class Running:
    """A search, and what is seen of it from outside."""

    config: Path
    store: Path
    served: Endpoint
    model: Slow
    process: "subprocess.Popen[bytes]"

    def wait_until(self, number: Callable[[], int], more: int) -> None:
        """Wait until a number has grown by so much."""
        wanted, end = number() + more, time.monotonic() + STARTS_WITHIN_S
        while number() < wanted:
            assert self.process.poll() is None, f"the search ended by itself\n{log_of(self.config)}"
            assert time.monotonic() < end, f"nothing comes of it\n{log_of(self.config)}"
            time.sleep(0.01)

    def results(self) -> int:
        """Count the results that are committed; none while the store is being made."""
        if not self.store.exists():
            return 0
        try:
            with Store.open(self.store, write=False) as store:
                return sum(isinstance(fact, ResultEntry) for fact in store.facts())
        except StoreError:
            return 0

    def requests(self) -> int:
        return len(self.served.asked)

    def continued(self) -> int:
        return self.model.continued


def soon_after_a_start(search: Running, chance: random.Random) -> None:
    time.sleep(chance.uniform(0.2, 6.0))


def soon_after_a_result(search: Running, chance: random.Random) -> None:
    search.wait_until(search.results, chance.randint(1, 4))
    time.sleep(chance.uniform(0.0, 0.4))


def soon_after_a_request(search: Running, chance: random.Random) -> None:
    search.wait_until(search.requests, chance.randint(2, 6))
    time.sleep(chance.uniform(0.0, 1.5 * DELAY_S))


def between_two_calls_of_a_step(search: Running, chance: random.Random) -> None:
    search.model.answers.clear()
    search.wait_until(search.continued, 1)
    time.sleep(chance.uniform(0.0, 2 * DELAY_S))


INSTANTS = (soon_after_a_request, soon_after_a_result, between_two_calls_of_a_step, soon_after_a_start)


@pytest.mark.slow
def test_kills_lose_nothing_and_no_reply_is_paid_for_twice(tmp_path: Path, ours: list[str]) -> None:
    config, path, chance, model = tmp_path / "kill.yaml", tmp_path / "kill.db", random.Random(5), Slow()
    shared_before, before, taken_up = set(os.listdir("/dev/shm")), Seen(), 0
    with endpoint(model) as served:
        config.write_text(CONFIG.format(task=HERE / "small_task.py", store=path, url=served.url))
        for comes in INSTANTS:
            process = start(config)
            comes(Running(config, path, served, model, process), chance)
            assert process.poll() is None, f"the search ended by itself\n{log_of(config)}"
            kill_group(process)
            model.answers.set()
            assert wait_for_no_children(besides=ours, seconds=300.0) == [], f"orphans\n{log_of(config)}"
            now = look(path)
            nothing_is_lost(before, now)
            taken_up += now.interrupted
            before = now
        process = start(config)
        search = Running(config, path, served, model, process)
        search.wait_until(search.results, 6)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=900) == 143, log_of(config)
        assert children(besides=ours) == []
        asked = Counter(said(request["messages"]) for request in served.asked)
        asked = Counter({text: count for text, count in asked.items() if TRIAL not in text})
    wait_until(lambda: set(os.listdir("/dev/shm")) <= shared_before)  # other tests have files there for a moment
    now = look(path)
    nothing_is_lost(before, now)
    assert now.leases == set()
    assert now.open > 0, "no kill came during a call"
    assert taken_up > 0, "no kill came between two calls of a step"
    assert now.interrupted <= 3  # of each model call at once: a step that the stop came to between two calls waits
    assert len(now.steps) == len(set(now.steps))
    measured = evaluated(now)
    assert len(measured) == len(set(measured)), "a program was measured twice with one budget"
    no_call_was_repeated(path, asked)
    settings = load_config(config).on("cpu")
    language = local_language("cpp", settings.evaluation)
    state = replay_store(path, StateFold(make_archipelago(settings, make_operators(settings)), language))
    with Store.open(path, write=False) as store:
        assert (store.meta("fingerprint") or "").split()[1] == state.fingerprint()


def evaluated(seen: Seen) -> list[tuple[str, str]]:
    """The programs and budgets that were really measured, in order; faults of our own may be tried again."""
    measured = [
        fact.evaluation
        for fact in seen.facts
        if isinstance(fact, EvaluationEntry) or (isinstance(fact, ResultEntry) and not fact.reused)
    ]
    return [(e.key.program_hash, str(e.key.budget)) for e in measured if e.status is not Status.HARNESS_ERROR]


def said(messages: list[dict[str, str]]) -> str:
    return json.dumps([[message["role"], message["content"]] for message in messages])


def no_call_was_repeated(path: Path, asked: Counter[str]) -> None:
    """Every request has a row of its own, and no row follows one with a reply for the same call of the same step."""
    with Store.open(path, write=False) as store:
        calls = list(store.calls.all())
    rows = Counter(json.dumps([[message.role, message.text] for message in call.call.messages]) for call in calls)
    assert asked <= rows, "a request was made that is in no row"
    answered: set[tuple[int, int]] = set()
    numbers = []
    for call in calls:
        place = (call.call.origin.step, call.call.ordinal)
        assert place not in answered, f"call {call.number} asks again what was answered"
        if call.result is not None and call.result.status in (CallStatus.OK, CallStatus.TRUNCATED):
            answered.add(place)
            numbers += _NUMBER.findall(call.result.text)[-1:]
    assert len(numbers) == len(set(numbers)) == len(answered)

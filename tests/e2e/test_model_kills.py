"""Kills (-9) of the whole process group of a real search while it waits for a model; it is resumed each time."""

import json
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from archive.journal import Fact, ResultEntry
from archive.store import Store
from evokernel.config.load import load_config
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.state_fold import StateFold
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.records.llm import CallStatus, Spending, StoredCall
from evokernel.testing.replay import replay_store
from operators.llm.operator import GO_ON
from tests.e2e.kill_and_resume import kill_group, log_of, start
from tests.llm.endpoint import Endpoint, Handler, endpoint, says

HERE = Path(__file__).parent
SEED = (HERE.parents[1] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp").read_text(encoding="utf-8")
KILLS = 6
DELAY_S = 0.3
STARTS_WITHIN_S = 300.0
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
  - {{name: one, operators: {{mutate: 1, refine: 1, plan: 0.5, rewrite: 0.3}}}}
  - {{name: two, operators: {{mutate: 1, crossover: 1, repair: 1, tune: 0.3}}, selector: {{kind: explore}}}}
migration: {{every: 7}}
"""
_NUMBER = re.compile(r"reply (\d+)")
TRIAL = "Answer with one word: ready"
"""The call that tries a model before each session; it is in no store."""


class Slow:
    """Answers after a while, each time something else; every second one is cut off in the middle of the code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def __call__(self, handler: Handler) -> None:
        with self._lock:
            self._count += 1
            number = self._count
        time.sleep(DELAY_S)
        *_, before, last = (message["content"] for message in handler.asked["messages"])
        if last == GO_ON:
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


@dataclass
class Seen:
    """What the store held when it was looked at."""

    facts: list[Fact] = field(default_factory=list)
    ended: dict[int, StoredCall] = field(default_factory=dict)
    open: int = 0
    interrupted: int = 0
    spent: Spending = field(default_factory=Spending)


def look(path: Path) -> Seen:
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        calls = list(store.calls.all())
        ended = {call.number: call for call in calls if call.result is not None}
        interrupted = len(store.calls.interrupted())
        return Seen(list(store.facts()), ended, len(calls) - len(ended), interrupted, store.calls.spending())


def nothing_is_lost(before: Seen, now: Seen) -> None:
    assert now.facts[: len(before.facts)] == before.facts
    assert {number: now.ended.get(number) for number in before.ended} == before.ended
    assert now.spent.calls >= before.spent.calls
    assert now.spent.tokens >= before.spent.tokens
    assert now.spent.cost_usd >= before.spent.cost_usd


def wait_for_requests(process: "subprocess.Popen[bytes]", served: Endpoint, more: int, *, config: Path) -> None:
    wanted, end = len(served.asked) + more, time.monotonic() + STARTS_WITHIN_S
    while len(served.asked) < wanted:
        assert process.poll() is None, f"the search ended by itself\n{log_of(config)}"
        assert time.monotonic() < end, f"the model is not asked\n{log_of(config)}"
        time.sleep(0.01)


@pytest.mark.slow
def test_no_reply_is_paid_for_twice(tmp_path: Path) -> None:
    config, path, chance = tmp_path / "kill.yaml", tmp_path / "kill.db", random.Random(5)
    before, taken_up = Seen(), 0
    with endpoint(Slow()) as served:
        config.write_text(CONFIG.format(task=HERE / "small_task.py", store=path, url=served.url))
        for _ in range(KILLS):
            process = start(config)
            wait_for_requests(process, served, chance.randint(1, 6), config=config)
            time.sleep(chance.uniform(0.0, 1.5 * DELAY_S))
            kill_group(process)
            now = look(path)
            nothing_is_lost(before, now)
            taken_up += now.interrupted
            before = now
        process = start(config)
        wait_for_requests(process, served, 4, config=config)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 143, log_of(config)
        asked = Counter(said(request["messages"]) for request in served.asked)
        asked = Counter({text: count for text, count in asked.items() if TRIAL not in text})
    now = look(path)
    nothing_is_lost(before, now)
    assert now.open >= KILLS // 2, "hardly any kill came during a call"
    assert taken_up > 0, "no kill came between two calls of a step"
    assert now.interrupted <= 3  # of each model call at once: a step that the stop came to between two calls waits
    steps = [fact.step for fact in now.facts if isinstance(fact, ResultEntry)]
    assert len(steps) == len(set(steps))
    no_call_was_repeated(path, asked)
    settings = load_config(config).on("cpu")
    language = local_language("cpp", settings.evaluation)
    state = replay_store(path, StateFold(make_archipelago(settings, make_operators(settings)), language))
    with Store.open(path, write=False) as store:
        assert (store.meta("fingerprint") or "").split()[1] == state.fingerprint()


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

"""Evolution of a prompt against an endpoint whose best prompt is known, through litellm on loopback."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.errors import ConfigError
from evokernel.evolve_prompts.search import PromptDecision, PromptSettings, front_of
from evokernel.evolve_prompts.trial import trial_config
from tests.evolve_prompts.known_best import (
    ASKS,
    CALL_USD,
    CLOCK,
    OVERFIT,
    ROWS,
    TASKS,
    TRUE_WORTH,
    KnownBest,
    config_of,
    edit_adding,
    evolve,
    fill,
    settings_of,
    state_of,
)
from tests.llm.endpoint import Endpoint, endpoint
from tests.support.engine import replayed

KILLS_AFTER = (3, 5, 9)
"""Requests of each process before it is killed."""
PATIENCE_S = 600.0


@dataclass
class Finished:
    """An evolution to its end, and its endpoint's side of it."""

    folder: Path
    settings: PromptSettings
    decision: PromptDecision
    model: KnownBest
    served: Endpoint
    lines: list[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, model, lines = tmp_path_factory.mktemp("finished"), KnownBest(TRUE_WORTH), list[str]()
    fill(folder)
    with endpoint(model) as served:
        settings = settings_of(folder, served.url)
        return Finished(folder, settings, evolve(folder, settings, lines), model, served, lines)


def test_the_known_best_prompt_wins_on_the_held_out_task(finished: Finished) -> None:
    decision = finished.decision
    assert decision.chosen is not None
    assert ROWS in decision.chosen.text
    assert CLOCK in decision.chosen.text
    best = math.exp(sum(each["gamma"] for each in TRUE_WORTH.values()) / 10)
    assert f"{best:.3f}x an ask on held-out tasks, the original 1.000x" in decision.reason
    assert any("gains no more" in line for line in finished.lines), "a sentence without worth was tried everywhere"


def test_every_call_is_counted_and_priced(finished: Finished) -> None:
    calls = len(finished.served.asked)
    assert finished.decision.spent.calls == calls
    assert finished.decision.spent.cost_usd == pytest.approx(CALL_USD * calls)


def test_a_reflection_reads_full_traces_and_no_held_out_task(finished: Finished) -> None:
    texts = ["\n\n".join(each["content"] for each in asked["messages"]) for asked in finished.served.asked]
    first, *_ = reflections = finished.model.reflections
    task = "alpha" if "// task alpha" in first else "beta"
    traced = [text for text in texts if f"// task {task}" in text and text not in reflections][:ASKS]
    assert all(text.strip() in first for text in traced)
    assert "right, 1.000x the kernel to start from" in first
    assert not any("gamma" in reflection for reflection in reflections)


def test_a_finished_evolution_is_told_again_without_a_network(finished: Finished) -> None:
    asked = len(finished.served.asked)
    assert evolve(finished.folder, finished.settings) == finished.decision
    assert len(finished.served.asked) == asked


def test_trials_can_be_replayed(finished: Finished) -> None:
    trials = finished.folder / "prompts-trials"
    stores = sorted(trials.glob("*.db"))
    assert len(stores) > 2 * len(TASKS)
    for path in stores:
        prompts = trials / f"text-{path.name.partition('-')[0]}"
        config = trial_config(config_of("http://127.0.0.1:1/v1"), operator="mutate", prompts=prompts)
        with Store.open(path, write=False) as store:
            assert store.verify() == []
            fingerprint = (store.meta("fingerprint") or "").split()[1]
        assert replayed(path, config).fingerprint() == fingerprint


def test_an_edit_that_helps_only_where_it_was_made_is_not_taken(folder: Path) -> None:
    with endpoint(KnownBest(OVERFIT)) as served:
        decision = evolve(folder, settings_of(folder, served.url, rounds=1))
    assert decision.chosen is not None
    assert decision.chosen.number == 1
    assert decision.reason.startswith("the original stays: 1.000x")


def test_an_edit_that_cannot_be_used_costs_its_call_alone(folder: Path) -> None:
    with endpoint(KnownBest(TRUE_WORTH, [edit_adding("{{ 'a' * 10 }}"), edit_adding(CLOCK)])) as served:
        decision = evolve(folder, settings_of(folder, served.url, rounds=2))
    _, refused, *_ = state_of(folder)["texts"]
    assert "statements of kind Mul" in refused[-1]
    assert decision.chosen is not None
    assert decision.chosen.number == 3


def test_the_budget_leaves_room_for_the_decision(folder: Path) -> None:
    least = 2 * ASKS * len(TASKS) + 1
    with endpoint(KnownBest({ROWS: TRUE_WORTH[ROWS], CLOCK: TRUE_WORTH[CLOCK]})) as served:
        with pytest.raises(ConfigError, match=f"need {least}; allow more"):
            evolve(folder, settings_of(folder, served.url, calls=least - 1))
        assert served.asked == []
        decision = evolve(folder, settings_of(folder, served.url, calls=least))
    assert decision.chosen is not None
    assert len(served.asked) == decision.spent.calls <= least


def test_dollars_end_an_evolution_and_more_let_it_go_on(folder: Path) -> None:
    with endpoint(KnownBest(TRUE_WORTH)) as served:
        short = evolve(folder, settings_of(folder, served.url, dollars=2.5 * CALL_USD))
        assert short.chosen is None
        assert short.reason.startswith("undecided: ")
        assert short.spent.cost_usd <= 2.5 * CALL_USD
        whole = evolve(folder, settings_of(folder, served.url, dollars=1000.0))
    assert whole.chosen is not None
    assert whole.chosen.number > 1
    assert whole.spent.calls == len(served.asked)


@pytest.mark.slow
def test_a_killed_evolution_ends_as_one_that_was_left_alone(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = tmp_path_factory.mktemp("alone")
    fill(alone)
    with endpoint(KnownBest(TRUE_WORTH)) as served:
        whole = evolve(alone, settings_of(alone, served.url, rounds=4))
    with endpoint(KnownBest(TRUE_WORTH)) as served:
        for more in KILLS_AFTER:
            _kill_after(folder, served, len(served.asked) + more)
        decision = evolve(folder, settings_of(folder, served.url, rounds=4))
    found, expected = state_of(folder), state_of(alone)
    assert found["decision"] == expected["decision"]
    assert found["gains"] == expected["gains"]
    assert [text[1:4] for text in found["texts"]] == [text[1:4] for text in expected["texts"]]
    in_flight = len(KILLS_AFTER) * ASKS  # what was asked at the instant of a kill is asked again
    assert whole.spent.calls <= len(served.asked) <= whole.spent.calls + in_flight
    assert decision.spent.calls >= len(served.asked)


def _kill_after(folder: Path, served: Endpoint, requests: int) -> None:
    """Start an evolution and kill it once so many requests have come, and no reflection waits for its reply.

    One that does would be asked again, and this endpoint has another edit then.
    """
    command = [sys.executable, "-m", "tests.evolve_prompts.known_best", str(folder), served.url, "4"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE_S
    while len(served.asked) < requests or "You improve the prompt" in str(served.asked[-1]):
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < end, "it asks nothing"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_the_front_holds_what_leads_on_some_task() -> None:
    scores = {1: {"a": 0.0, "b": 0.3}, 2: {"a": 0.5, "b": 0.1}, 3: {"a": 0.5, "b": 0.0}, 4: {"a": 0.4, "b": 0.2}}
    assert front_of(scores) == {1: 1, 2: 1}

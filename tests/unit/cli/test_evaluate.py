"""`evokernel evaluate` with a real compiler and real processes."""

import json
from pathlib import Path

from tests.unit.cli.conftest import Call
from tests.unit.cli.tools_task import place_task

FIELDS = {
    "format", "file", "task", "candidate", "language", "ok", "mode", "device", "environment", "sandbox", "evaluations",
}  # fmt: skip
EVALUATION = {
    "budget", "mode", "status", "stage", "stages", "feedback", "speedup", "baselines", "workloads",
    "descriptor", "metrics", "duration_s",
}  # fmt: skip


def test_right_kernel(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    result = call("evaluate", kernel, "--task", task, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert set(found) == FIELDS
    assert found["ok"]
    evaluation = found["evaluations"][0]
    assert set(evaluation) == EVALUATION
    assert set(evaluation["stages"].values()) == {"passed"}
    assert evaluation["workloads"][0]["floor_share"] > 0
    assert evaluation["workloads"][0]["limit"] in ("memory", "arithmetic")
    assert "-bound" in evaluation["feedback"]


def test_wrong_kernel(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("+=", "-="), encoding="utf-8")
    result = call("evaluate", kernel, "--task", task)
    assert result.exit_code == 1, result.output
    for expected in ("wrong: ", "smoke", "failed", "not reached", "the error is", "sandbox", "mode", "worker"):
        assert expected in " ".join(result.output.split())  # a long folder's name wraps lines


def test_what_cannot_be_judged(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    odd = kernel.rename(kernel.with_suffix(".f90"))
    result = call("evaluate", odd, "--task", task)
    assert result.exit_code == 2
    assert ".cpp (cpp)" in result.output
    odd.rename(kernel)
    result = call("evaluate", kernel, "--task", "nowhere")
    assert result.exit_code == 2
    assert "unknown task 'nowhere'" in result.output

"""`evokernel tasks`, with the real built-in tasks."""

from pathlib import Path

from tests.cli.conftest import Call
from tests.cli.tools_task import place_task


def test_list(project: Path, call: Call) -> None:
    result = call("tasks")
    assert result.exit_code == 0
    assert "gemm" in result.output
    assert "gemm_deep" in result.output
    assert "softmax" in result.output


def test_one_task(project: Path, call: Call) -> None:
    task, _ = place_task(project)
    result = call("tasks", task)
    assert result.exit_code == 0, result.output
    for part in ('extern "C" void run(const float* a', "48x64x32", "holdout", "M 1 to 9", "fit to judge kernels"):
        assert part in result.stdout
    assert result.output.index("holdout") < result.output.index("judging honest and empty answers")  # while one waits
    assert "judging honest" in result.stderr


def test_task_that_cannot_judge(project: Path, call: Call) -> None:
    task, _ = place_task(project)
    task.write_text(task.read_text(encoding="utf-8").replace("return a @ b", "return (a @ b) * 0"), encoding="utf-8")
    result = call("tasks", task)
    assert result.exit_code == 1
    assert "cannot judge kernels" in result.output

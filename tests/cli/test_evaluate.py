"""`evokernel evaluate` with a real compiler and real processes."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.cli.evaluate import _show
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationKey, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.timing import Speedup, Timing, Verdict
from tests.cli.conftest import Call
from tests.cli.tools_task import place_task

FIELDS = {
    "format", "file", "task", "candidate", "language", "ok", "mode", "device", "environment", "sandbox", "evaluations",
}  # fmt: skip
EVALUATION = {
    "budget", "mode", "nondeterministic", "status", "stage", "stages", "feedback", "speedup", "baselines", "workloads",
    "descriptor", "metrics", "duration_s",
}  # fmt: skip


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_right_kernel(project: Path, call: Call, strict_umask: None) -> None:
    task, kernel = place_task(project)
    result = call("evaluate", kernel, "--task", task, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) == FIELDS
    assert found["ok"]
    evaluation = found["evaluations"][0]
    assert set(evaluation) == EVALUATION
    assert set(evaluation["stages"].values()) == {"passed"}
    assert evaluation["workloads"][0]["floor_share"] > 0
    assert evaluation["workloads"][0]["limit"] in ("memory", "arithmetic")
    assert "-bound" in evaluation["feedback"]


@pytest.mark.slow
def test_an_expert_is_one_more_baseline(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    expert = shutil.copy(kernel, project / "mine.cpp")
    result = call("evaluate", kernel, "--task", task, "--expert", expert, "--final")
    assert result.exit_code == 0, result.output
    told = [line.split() for line in result.output.partition("compared with")[2].splitlines()]
    intervals = {words[0]: words[1:] for words in told if words and words[0] in ("reference", "expert")}
    assert set(intervals) == {"reference", "expert"}
    assert all(len(words) == 2 and "–" in words[1] for words in intervals.values())


def test_each_measurement_is_named_and_what_tables_say_is_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    timing = Timing("w", "torch", 1.0, 10.0, 20.0, math.log(2), 0.01, 10, Verdict.FASTER)
    key = EvaluationKey("p", "t", "d", "e", "1", Mode.ARTIFACT, Fidelity.PRECISE)
    feedback = "w: 10 us against 20 us\nall: 2.000x\nbottleneck: device memory: busy 91 % of the time"
    precise = Evaluation(key, "c", Status.OK, Stage.PRECISE, timings=(timing,), feedback=feedback)
    held = {"holdout_speedup": 1.5, "holdout_speedup_low": 1.25, "holdout_speedup_high": 1.75}
    final = replace(precise, key=replace(key, budget=Fidelity.FINAL), feedback="measured anew in fresh processes")
    final = replace(final, metrics=held, panel={"torch": Speedup(2.0, 1.9, 2.1), "other": Speedup(3.0, 2.9, 3.1)})
    identity = EvaluatorIdentity("t", "d", "e", "1", Mode.ARTIFACT, {}, "full")
    _show(KernelVerdict(Candidate("def run(): ...", "triton"), identity, (precise, final)), Path("k.py"))
    shown = capsys.readouterr().out
    assert "bottleneck: device memory: busy 91 % of the time" in shown
    assert "all: 2.000x" not in shown
    assert "measured anew" not in shown
    for each in ("final: 2.00x", "1.50x (1.25–1.75) on held-out ones", "workload (search)", "workload (final)"):
        assert " ".join(shown.split()).count(each) == 1
    assert "compared with (final)" in shown
    _show(KernelVerdict(Candidate("def run(): ...", "triton"), identity, (precise,)), Path("k.py"))
    assert not any(word in capsys.readouterr().out for word in ("(search)", "final"))
    failed = replace(final, status=Status.HOLDOUT_FAILED, timings=(), metrics={}, panel={})
    _show(KernelVerdict(Candidate("def run(): ...", "triton"), identity, (precise, failed)), Path("k.py"))
    shown = capsys.readouterr().out
    assert "wrong: holdout_failed" in shown
    assert "workload (search)" in shown
    assert "workload (final)" not in shown


def test_wrong_kernel(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("+=", "-="), encoding="utf-8")
    result = call("evaluate", kernel, "--task", task)
    assert result.exit_code == 1, result.output
    for expected in ("wrong: ", "smoke", "failed", "not reached", "the error is", "sandbox", "mode", "worker"):
        assert expected in " ".join(result.output.split())  # a long folder's name wraps lines


def test_a_setting_of_the_judge(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("+=", "-="), encoding="utf-8")
    result = call("evaluate", kernel, "--task", task, "--json", "--set", "evaluation.sandbox=rlimits")
    assert "level rlimits" in json.loads(result.stdout)["sandbox"]


def test_a_kernel_of_another_task_is_told_what_this_one_calls(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    kernel.write_text('extern "C" void run(const float* mine, float* y) { for (long i = 0;; i++) y[i] = mine[i]; }')
    result = call("evaluate", kernel, "--task", task)
    said = " ".join(result.output.split())
    assert result.exit_code == 1, result.output
    assert "its run(const float* mine, float* y) does not take the arguments of this task" in said
    assert "Is it a kernel of another task?" in said


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

"""Outputs of one byte an element: whoever leaves some of them as they are is found out, and honest kernels pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.records.evaluation import Status
from evokernel.testing.evaluator import SETTINGS, EvaluatorDriver

TASK = """
import torch
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

def reference(x, keep, **_):
    scaled = torch.clamp(torch.round(x * 60), -128, 127)
    return (x > 0) & keep, torch.where(keep, scaled, 0).to(torch.int8)

task = Task(
    name="bytes", reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("N",)), Tensor("keep", ("N",), "bool")), scalars=(Scalar("N"),),
        outputs=(Tensor("flag", ("N",), "bool", Role.OUTPUT), Tensor("q", ("N",), "int8", Role.OUTPUT)),
    ),
    workloads={"cpu": WorkloadSet(
        search=(Workload("5000", {"N": 5000}),), holdout=(Workload("3001", {"N": 3001}),), probe={"N": (1, 300)},
        probes=2,
    )},
    flops="N",
)
"""
FLAG, QUANTISED = "flag[i] = positive;", "q[i] = number;"
HEAD = """#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, const bool* keep, int64_t N, bool* flag, int8_t* q) {
    for (int64_t i = 0; i < N; ++i) {
        const bool positive = x[i] > 0 && keep[i];
        const int8_t number = keep[i] ? std::fmin(std::fmax(std::nearbyint(x[i] * 60), -128), 127) : 0;
"""
HONEST = {
    "plainly": FLAG + QUANTISED,
    "as other types of a byte": "((uint8_t*)flag)[i] = positive ? 1 : 0; ((uint8_t*)q)[i] = (uint8_t)number;",
    "false everywhere, then true": "flag[i] = false; if (positive) flag[i] = true;" + QUANTISED,
}
CHEATS = {
    "flags that are set only": "if (positive) flag[i] = true;" + QUANTISED,
    "flags that are cleared only": "if (!positive) flag[i] = false;" + QUANTISED,
    "flags cleared bit by bit": "((uint8_t*)flag)[i] &= positive;" + QUANTISED,
    "flags that are true in C": "((uint8_t*)flag)[i] = positive ? 255 : 0;" + QUANTISED,
    "no last flag": "if (i != N - 1) flag[i] = positive;" + QUANTISED,
    "no saturated numbers": FLAG + "if (number < 127) q[i] = number;",
    "the larger number": FLAG + "if (number > q[i]) q[i] = number;",
    "no second half": FLAG + "if (2 * i < N) q[i] = number;",
}


@pytest.fixture(scope="module")
def driver(judge_host: JudgeHostClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluatorDriver]:
    task: Path = tmp_path_factory.mktemp("task") / "bytes.py"
    task.write_text(TASK)
    language = local_language("cpp", SETTINGS)
    made = EvaluatorDriver(open_evaluator(str(task), language, settings=SETTINGS, start=judge_host), language)
    yield made
    made.close()


@pytest.mark.parametrize("name", HONEST)
def test_whoever_writes_all_of_them_is_right(driver: EvaluatorDriver, name: str) -> None:
    (found,) = driver.evaluate(HEAD + HONEST[name] + "}}")
    assert found.status is Status.OK, found.feedback


@pytest.mark.parametrize("name", CHEATS)
def test_whoever_leaves_some_is_wrong(driver: EvaluatorDriver, name: str) -> None:
    (found,) = driver.evaluate(HEAD + CHEATS[name] + "}}")
    assert found.status in (Status.UNWRITTEN_OUTPUT, Status.NUMERICAL), found.feedback

"""A kernel that a user names is judged first, and then a baseline like the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evokernel.errors import ConfigError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.evaluations import identify
from evokernel.evaluate.client.expert import read_expert
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.worker_mode.expert_loop import EXPERT, python_baseline
from evokernel.records.evaluation import Fidelity
from evokernel.task import Role, Scalar, Signature, Tensor
from evokernel.testing import evaluator as contract

SLOW = contract.kernel("for (volatile int spin = 0; spin < 600000; spin = spin + 1);")
BASELINES = '    baselines={"BASELINE": lambda inputs, outputs: outputs[0].copy_(inputs["a"] @ inputs["b"])},\n'


def evaluator(host: JudgeHostClient, folder: Path, source: str, *, baseline: str = "torch") -> contract.EvaluatorDriver:
    """Return one whose expert is a source, in a file of that name."""
    task = Path(contract.write_task(folder))
    text = task.read_text(encoding="utf-8")
    task.write_text(
        text.replace('    flops="', BASELINES.replace("BASELINE", baseline) + '    flops="'), encoding="utf-8"
    )
    (folder / "mine.cpp").write_text(source, encoding="utf-8")
    settings = contract.SETTINGS.model_copy(update={"expert": str(folder / "mine.cpp")})
    language = local_language("cpp", settings)
    return contract.EvaluatorDriver(open_evaluator(str(task), language, settings=settings, start=host), language)


@pytest.fixture(scope="module")
def driver(judge_host: JudgeHostClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[contract.EvaluatorDriver]:
    made = evaluator(judge_host, tmp_path_factory.mktemp("expert"), SLOW)
    yield made
    made.close()


def test_its_time_is_that_of_the_kernel(driver: contract.EvaluatorDriver) -> None:
    """A kernel that waits 600,000 rounds of a loop beside a product of 64x64x64."""
    for times in driver.identity.baseline_us.values():
        assert set(times) == {"torch", EXPERT}
        assert times[EXPERT] > 5 * times["torch"]


@pytest.mark.slow
@pytest.mark.alone
def test_a_winner_is_paired_with_every_baseline(driver: contract.EvaluatorDriver) -> None:
    (quick,) = driver.evaluate(contract.kernel())
    assert quick.ok, quick.feedback
    assert {timing.baseline for timing in quick.timings} == {"torch"}  # the fastest anchors the search
    (final,) = driver.evaluate(contract.kernel(), budget=Fidelity.FINAL)
    assert final.ok, final.feedback
    assert set(final.panel) == {"torch", EXPERT}
    for speedup in final.panel.values():
        assert speedup.low <= speedup.value <= speedup.high
    # a processor that others share has spoilt an interval, but it does not make 65 of 0.8
    assert final.panel[EXPERT].value > 2 * final.panel["torch"].value
    assert {timing.baseline for timing in final.timings} == {"torch"}


@pytest.mark.slow
@pytest.mark.alone
def test_one_that_is_beaten_by_nobody_anchors_the_search(judge_host: JudgeHostClient, tmp_path: Path) -> None:
    driver = evaluator(judge_host, tmp_path, contract.kernel())
    try:
        times = driver.identity.baseline_us["64x64x64"]
        (found,) = driver.evaluate(SLOW)
    finally:
        driver.close()
    assert found.ok, found.feedback
    fastest = min(times, key=lambda name: times[name])
    assert found.timings[0].baseline == fastest
    assert found.timings[0].speedup.value < 1  # few pairs: one that is disturbed widens the interval


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            contract.EvaluatorContract.BAD["wrong"][0],
            "is not right, so nothing can be compared with it: numerical, at the stage smoke: ",
        ),
        (contract.EvaluatorContract.BAD["not compiling"][0], "compile_error, at the stage compile: .*nobody"),
    ],
    ids=["wrong", "not compiling"],
)
def test_a_wrong_one_is_refused_before_anything_is_searched(
    judge_host: JudgeHostClient, tmp_path: Path, source: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        evaluator(judge_host, tmp_path, source)


def test_two_baselines_cannot_have_one_name(judge_host: JudgeHostClient, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a baseline called 'expert' already"):
        evaluator(judge_host, tmp_path, contract.kernel(), baseline=EXPERT)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "kernel.py",
            r"must be a kernel for device class cpu, and its suffix says triton; expected one of \.cpp \(cpp\)",
        ),
        ("kernel.f90", "its suffix says no language"),
        ("nowhere.cpp", "cannot read the kernel .*nowhere.cpp"),
    ],
)
def test_a_file_that_cannot_be_one_is_refused(tmp_path: Path, file: str, said: str) -> None:
    settings = contract.SETTINGS.model_copy(update={"expert": str(tmp_path / file)})
    with pytest.raises(ConfigError, match=said):
        read_expert(settings, device="cpu", threads=1, limits=None)


def test_without_one_there_is_none() -> None:
    assert read_expert(contract.SETTINGS, device="cpu", threads=1, limits=None) is None


PYTHON = """
def run(x, s, N, factor, y, z):
    y.copy_(x * factor + N)
    z.copy_(s)
    s.add_(1)
"""
SIGNATURE = Signature(
    inputs=(Tensor("x", ("N",)), Tensor("s", ("N",), role=Role.INOUT)),
    scalars=(Scalar("N"), Scalar("factor", "float32")),
    outputs=(Tensor("y", ("N",), role=Role.OUTPUT), Tensor("z", ("N",), role=Role.OUTPUT)),
)


def test_python_is_called_in_the_order_of_the_signature(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON, encoding="utf-8")
    call = python_baseline(str(tmp_path / "mine.py"), SIGNATURE)
    x, s, y, z = torch.arange(3.0), torch.full((3,), 5.0), torch.zeros(3), torch.zeros(3)
    call({"x": x, "s": s, "N": 3, "factor": 2.0}, (s, y, z))
    assert y.tolist() == [3.0, 5.0, 7.0]
    assert z.tolist() == [5.0] * 3
    assert s.tolist() == [6.0] * 3


def test_the_kernel_and_not_its_place_is_part_of_who_judges() -> None:
    """An edited expert is another task; one that was moved is not."""
    language = local_language("cpp", contract.SETTINGS)
    hello = {"device": "d", "sheet": {}, "sandbox": "s", "baseline_us": {}}

    def task_hash(expert: str, file: str) -> str:
        settings = contract.SETTINGS.model_copy(update={"expert": file})
        made = identify(hello, "gemm", language=language, settings=settings, threads=1, device="cpu", expert=expert)
        return made.task_hash

    assert task_hash("one", "/a.cpp") == task_hash("one", "/b.cpp")
    assert len({task_hash("one", "/a.cpp"), task_hash("two", "/a.cpp"), task_hash("", "")}) == 3

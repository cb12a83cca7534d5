"""Tasks as users write them, on a GPU: operands with strides, recorded and in a worker, and generated inputs."""

import asyncio
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.errors import TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode, Status

USERS = Path(__file__).parents[1] / "tasks" / "users"
TRITON, CUDA = ((USERS / "seeds" / f"strided_gemm.{suffix}").read_text() for suffix in ("triton.py", "cu.py"))
LEVELS = (USERS / "seeds" / "levels.triton.py").read_text()
IEEE = 'tl.dot(x, y, acc, input_precision="ieee")'
UNRECORDABLE = "    import torch\n\n    torch.empty(2, 2, device=c.device)[:, 0].fill_(0)\n    grid = "
WRONG = {
    "rows without their padding": ("rows[:, None] * LDA", "rows[:, None] * K"),
    # the second operand is masked there, so that a number would do no harm
    "padding times zero": ("(ks[None, :] < K), other=0.0)", "(ks[None, :] < LDA), other=0.0)"),
}


SOURCES = {
    "triton": TRITON,
    "in a worker": TRITON.replace("    grid = ", UNRECORDABLE),
    **{name: TRITON.replace(old, new) for name, (old, new) in WRONG.items()},
}


def judged(
    language: str, sources: dict[str, str], fidelity: Fidelity, *, task: str = "strided_gemm"
) -> dict[str, Evaluation]:
    """Judge sources by one evaluator."""

    async def run() -> dict[str, Evaluation]:
        settings = EvaluationConfig(quick_ms=20, timeout_s=20, gpus=1).on("cuda")
        made = local_language(language, settings)
        async with open_evaluator(str((USERS / task).with_suffix(".py")), made, settings=settings) as evaluator:
            return {
                name: await evaluator.evaluate(
                    EvaluationRequest(Candidate(source, language), made.program_hash(source), fidelity)
                )
                for name, source in sources.items()
            }

    return asyncio.run(run())


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Evaluation]:
    return judged("triton", SOURCES, Fidelity.QUICK)


@pytest.mark.parametrize(("name", "mode"), [("triton", Mode.ARTIFACT), ("in a worker", Mode.WORKER)])
def test_a_kernel_that_reads_the_declared_layout_is_right(
    verdicts: dict[str, Evaluation], name: str, mode: Mode
) -> None:
    assert (verdicts[name].status, verdicts[name].key.mode) == (Status.OK, mode), verdicts[name].feedback


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_takes_padding_for_numbers_is_wrong(verdicts: dict[str, Evaluation], name: str) -> None:
    assert verdicts[name].status in (Status.NONFINITE, Status.NUMERICAL), verdicts[name].feedback


def test_a_kernel_in_cuda_reads_it_too_and_passes_the_sanitizers_of_a_final_measurement() -> None:
    (found,) = judged("cuda", {"cuda": CUDA}, Fidelity.FINAL).values()
    assert found.ok, found.feedback
    assert found.metrics["float16_speedup"] == 0, "its text names bfloat16"


def test_a_winner_that_takes_further_dtypes_is_right_at_them() -> None:
    (found,) = judged("triton", {"triton": TRITON.replace("tl.dot(x, y, acc)", IEEE)}, Fidelity.FINAL).values()
    assert found.ok, found.feedback
    assert found.metrics["float16_speedup"] > 0, found.feedback
    assert found.metrics["float32_speedup"] > 0, found.feedback


def test_generated_inputs_reach_a_kernel_and_one_that_takes_all_rows_for_equally_long_is_wrong() -> None:
    right = (USERS / "seeds" / "spmv.triton.py").read_text()
    old, new = (
        "tl.load(offsets + row), tl.load(offsets + row + 1)",
        "tl.load(offsets + row), tl.load(offsets + row) + 9",
    )
    assert old in right
    found = judged("triton", {"right": right, "wrong": right.replace(old, new)}, Fidelity.PRECISE, task="spmv")
    assert (found["right"].status, found["right"].key.mode) == (Status.OK, Mode.ARTIFACT), found["right"].feedback
    assert not found["wrong"].ok


def test_a_reference_with_a_table_is_tried_with_other_constants_though_these_leave_its_table() -> None:
    (found,) = judged("triton", {"triton": LEVELS}, Fidelity.PRECISE, task="levels").values()
    assert found.ok, found.feedback


def test_a_reference_that_leaves_its_table_is_told_so(tmp_path: Path) -> None:
    wrong = (USERS / "levels.py").read_text().replace("arange(16.0)", "arange(15.0)")
    task = tmp_path / "levels.py"
    task.write_text(wrong.replace("Path(__file__).parent", f"Path({str(USERS)!r})"))
    with pytest.raises(TaskError, match="index 15 is out of bounds for a dimension of size 15"):
        judged("triton", {"triton": LEVELS}, Fidelity.QUICK, task=str(task))

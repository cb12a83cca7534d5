"""Tasks as users write them: operands in layouts of their own and generated inputs, judged and searched."""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from evokernel import Judge
from evokernel.records.evaluation import Status
from tests.cli.conftest import Call
from tests.judging.conftest import QUICK

USERS = Path(__file__).parents[1] / "tasks" / "users"
# A kernel that takes no heed of the strides, or that lets what lies between the rows into a sum.
WRONG = {
    "rows without their padding": ("a[i * LDA + k]", "a[i * K + k]"),
    "the other operand": ("b[j * LDB + k]", "b[k * N + j]"),
    "padding times zero": ("float sum = 0;", "float sum = i + 1 < M && LDA > K ? 0 * a[i * LDA + K] : 0;"),
}


@pytest.fixture(scope="module")
def judge_of() -> Iterator[Callable[[str], Judge]]:
    """Returns the judge of a task, one for all its kernels."""
    with ExitStack() as stack:
        yield functools.cache(
            lambda name: stack.enter_context(Judge(USERS / f"{name}.py", device="cpu", evaluation=QUICK))
        )


@pytest.mark.parametrize("name", ["strided_gemm", "channels_last_conv", "spmv"])
def test_a_right_kernel_of_a_users_task_is_right(judge_of: Callable[[str], Judge], name: str) -> None:
    assert judge_of(name)((USERS / "seeds" / f"{name}.cpp").read_text()).status is Status.OK


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_takes_padding_for_numbers_is_wrong(judge_of: Callable[[str], Judge], name: str) -> None:
    text = (USERS / "seeds" / "strided_gemm.cpp").read_text()
    old, new = WRONG[name]
    assert old in text
    assert judge_of("strided_gemm")(text.replace(old, new)).status in (Status.NONFINITE, Status.NUMERICAL)


def test_a_kernel_that_takes_all_rows_for_equally_long_is_wrong(judge_of: Callable[[str], Judge]) -> None:
    text = (USERS / "seeds" / "spmv.cpp").read_text()
    old, new = "int64_t k = offsets[i]; k < offsets[i + 1]", "int64_t k = i * NNZ / R; k < (i + 1) * NNZ / R"
    assert old in text
    assert judge_of("spmv")(text.replace(old, new)).status is Status.NUMERICAL


def test_a_read_past_the_last_element_is_found_though_others_lie_between_rows(
    judge_of: Callable[[str], Judge],
) -> None:
    text = (USERS / "seeds" / "strided_gemm.cpp").read_text()
    wrong = text.replace("float sum = 0;", "volatile float past = a[i * LDA + LDA - 1]; (void)past; float sum = 0;")
    found = judge_of("strided_gemm")(wrong)
    assert found.status is Status.SANITIZER
    assert "past the end of argument a" in found.feedback


@pytest.mark.parametrize("name", ["strided_gemm.triton.py", "strided_gemm.cu.py", "spmv.triton.py"])
def test_gpu_kernels_are_built_with_the_strides_they_will_see(call: Call, project: Path, name: str) -> None:
    task = USERS / f"{name.partition('.')[0]}.py"
    result = call("evaluate", USERS / "seeds" / name, "--task", task, "--compile-only")
    assert result.exit_code == 0, result.output


def test_authors_are_told_the_layout(call: Call, project: Path) -> None:
    result = call("tasks", USERS / "strided_gemm.py")
    assert result.exit_code == 0, result.output
    assert "a[M, K]: float32, input, strides (LDA, 1): element [i0, i1] is at i0 * LDA + i1" in result.output
    assert "b[K, N]: torch.bfloat16, input, strides (1, LDB): element [i0, i1] is at i0 + i1 * LDB" in result.output
    assert "int64_t K, int64_t LDA, int64_t LDB, float* c)" in result.output
    assert "def run(a, b, M, N, K, LDA, LDB, c):" in result.output


CONFIG = """
task: {task}
seed: 3
store: {store}
budget: {{evaluations: 4}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
islands:
  - {{name: one, operators: {{rewrite: 1.0}}}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strided_gemm", "spmv"])
def test_a_search_finds_right_kernels_and_exports_one(call: Call, project: Path, name: str) -> None:
    store = project / "run.db"
    (project / "run.yaml").write_text(CONFIG.format(task=USERS / f"{name}.py", store=store))
    assert call("evolve", project / "run.yaml").exit_code == 0
    found = json.loads(call("status", store, "--json").stdout)
    assert found
    result = call("export", "--store", store, "--out", project / "out", "--sizes", 0, "--accept-from", 0)
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_init_says_which_arguments_are_fixed_and_at_which_values(project: Path, call: Call) -> None:
    (project / "mine.py").write_text("def mine(x, *, scale: float = 0.7, bias=None):\n    return x * scale\n")
    made = call("init", "mine.py", "--inputs", "x: 64x32, scale: 0.5", "--device", "cpu")
    assert made.exit_code == 0, made.output
    said = " ".join(made.output.split())
    assert (
        'fixed scale=0.5, bias=None: kernels compute with nothing else; for other values --inputs "scale: ..."' in said
    )

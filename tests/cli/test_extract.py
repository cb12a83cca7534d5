"""`evokernel extract`: what it writes and says, and what it refuses before it begins."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call

DOUBLE = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


def double(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""
CALL = "import torch\nfrom mine import double\n\ndouble(torch.randn(40, 30, device='cuda'))\n"
REFERENCE = "def double(x):\n    return 2 * x\n"


@pytest.mark.slow
def test_a_function_becomes_a_project(project: Path, call: Call) -> None:
    pytest.importorskip("triton")
    for name, text in {"mine.py": DOUBLE, "call.py": CALL, "plain.py": REFERENCE}.items():
        (project / name).write_text(text)
    done = call("extract", "mine.py:double", "--call", "call.py", "--reference", "plain.py:double", "--out", "there")
    assert done.exit_code == 0, done.output
    assert "built for sm_90, and equal to the reference" in done.output
    assert "evokernel evolve there/double.yaml" in done.output
    assert {"double_task.py", "double_triton.py", "double.yaml"} <= {path.name for path in Path("there").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mine.py:double"], "give --call SCRIPT.py"),
        (["mine.py:double", "--entry", "kernel"], "for a file in CUDA C++"),
        (["mine.cu", "--launch", "launch.py"], "give --entry KERNEL and --launch FILE.py"),
        (
            ["mine.cu", "--entry", "kernel", "--launch", "launch.py", "--config", "1"],
            "for kernels with triton.autotune",
        ),
    ],
)
def test_what_is_missing_or_does_not_belong_is_told_at_once(
    project: Path, call: Call, arguments: list[str], told: str
) -> None:
    done = call("extract", *arguments, "--reference", "plain.py:double")
    assert done.exit_code == 2
    assert told in done.output
    assert not [*project.iterdir()]

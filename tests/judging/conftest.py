"""A warm judge of a small task, shared by the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evokernel import Judge

TASK = Path(__file__).parents[1] / "e2e" / "small_task.py"
QUICK = {
    "quick_ms": 20,
    "precise_ms": 40,
    "final_ms": 60,
    "final_processes": 1,
    "timeout_s": 3,
    "compile_timeout_s": 120,
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(TASK, device="cpu", evaluation=QUICK) as judge:
        yield judge


@pytest.fixture(scope="session")
def seed() -> str:
    return (Path(__file__).parents[2] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp").read_text()


def stages_in(stderr: str) -> list[str]:
    """Return who says each line; that other searches share the cores, as tests beside this one do, is left out."""
    return [line.partition(":")[0] for line in stderr.splitlines() if not line.startswith("other searches")]

"""Rewritten CUDA kernels compute the same: their text is run on the processor, on sizes that fit no vector or block."""

import random
import shutil
from pathlib import Path

import pytest

from evokernel.source.tunables import read_tunables, with_values
from operators.rewrites.cuda import CUDA_REWRITES
from tests.operators.rewrites.cuda.sources import SEEDS, after
from tests.support.cuda_seeds import run_on_cpu

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

STACKS = {
    "softmax": ("vector_load", "register_row", "restrict"),
    "histogram": ("vector_load", "restrict"),
    "gemm": ("vector_tile", "prefetch_tile", "restrict"),
}
SMALL = {
    "softmax": {"THREADS": 64, "KEEP": 2},
    "histogram": {"THREADS": 64, "BLOCKS": 132},
    "gemm": {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "WARPS_M": 1, "WARPS_N": 1},
}
SIZES = {
    "softmax": "1 1  3 2  2 1000  5 257",
    "histogram": "1 1  5 257  70001 4096  5000 5001",
    "gemm": "1 8 16  70 65 33  64 64 32  40 72 48  33 24 41  24 33 40",
}
"""Rows that begin at vectors' boundaries and others; products of which both, one or no operand can go by vectors."""


def run(task: str, source: str, folder: Path) -> str:
    """What is wrong with a source for a task, with small values of its tunables."""
    known = read_tunables(source).values
    source = with_values(source, {name: value for name, value in SMALL[task].items() if name in known})
    done = run_on_cpu(task, source, folder, sizes=SIZES[task])
    return "" if done.returncode == 0 else done.stdout + done.stderr or str(done.returncode)


@pytest.mark.parametrize("task", STACKS)
def test_all_rewrites_together_compute_the_same(task: str, tmp_path: Path) -> None:
    assert run(task, after(SEEDS[task], *STACKS[task]), tmp_path) == ""


@pytest.mark.parametrize(
    ("task", "names", "old", "new"),
    [
        ("softmax", ("vector_load",), "/ LANES * LANES", "/ LANES * LANES + 1"),
        ("softmax", ("vector_load",), "const bool aligned = ", "const bool aligned = true || "),
        ("softmax", ("register_row",), "threadIdx.x + KEEP * (THREADS)", "threadIdx.x + 2 * KEEP * (THREADS)"),
        ("gemm", ("vector_tile",), "if (K % 8 == 0 && ", "if ("),
        ("gemm", ("prefetch_tile",), "const int k0 = following;", ""),
    ],
)
def test_mistakes_of_a_rewrite_are_seen(task: str, names: tuple[str, ...], old: str, new: str, tmp_path: Path) -> None:
    rewritten = after(SEEDS[task], *names)
    assert old in rewritten
    assert run(task, rewritten.replace(old, new), tmp_path) != ""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("task", STACKS)
def test_any_moves_at_any_point_compute_the_same(task: str, number: int, tmp_path: Path) -> None:
    rng = random.Random(f"{task} {number}")
    source = SEEDS[task]
    for _ in range(1 + number):
        moves = CUDA_REWRITES.moves(source)
        source = CUDA_REWRITES.apply(source, rng.choice(moves)) if moves else source
    space = read_tunables(source)
    small = [each for each in space.points() if each.get("THREADS", 0) <= 256 and each.get("BLOCKS", 132) == 132]
    values = rng.choice(small)
    done = run_on_cpu(task, with_values(source, values), tmp_path, sizes=SIZES[task])
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{values}\n{source}"

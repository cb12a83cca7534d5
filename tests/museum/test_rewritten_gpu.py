"""Honest CUDA kernels that the rewrites were not written for: what is made of them is right on a processor."""

import shutil
from pathlib import Path

import pytest

from evokernel.protocols import Language
from evokernel.source.tunables import read_tunables, with_values
from evokernel.tasks import load_task
from operators.rewrites.cuda import CUDA_REWRITES
from operators.rewrites.library import RewriteMove
from tests.museum.emulated import emulated
from tests.museum.exhibits import HONEST, Exhibit, read_exhibits
from tests.museum.pipeline import language_for
from tests.support.due_outputs import complaint
from tests.support.nvrtc import needs_nvrtc

pytestmark = [
    pytest.mark.slow,
    needs_nvrtc,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
SMALLEST = {"KEEP": 1, "LANES": 2}
"""Values that leave work for the loops behind the vectors and the registers."""
REWRITTEN = [
    (kernel, move)
    for kernel in read_exhibits(HONEST / "cuda")
    if "cpu" not in kernel.head
    for move in CUDA_REWRITES.moves(kernel.source)
    if move.rewrite != "restrict"  # which means nothing on a processor
]


@pytest.fixture(scope="module")
def language() -> Language:
    return language_for("cuda")


def test_several_kernels_have_moves() -> None:
    assert {move.rewrite for _, move in REWRITTEN} >= {"vector_load", "register_row"}


@pytest.mark.parametrize(
    ("kernel", "move"), REWRITTEN, ids=[f"{kernel.name}-{move.rewrite}-{move.index}" for kernel, move in REWRITTEN]
)
def test_a_rewritten_kernel_is_right(language: Language, kernel: Exhibit, move: RewriteMove, tmp_path: Path) -> None:
    source = CUDA_REWRITES.apply(kernel.source, move)
    known = read_tunables(source).values
    source = with_values(source, {name: value for name, value in SMALLEST.items() if name in known})
    found = emulated(language, source, load_task(kernel.task).on("cuda"), folder=tmp_path)
    assert [text for question, left in found if (text := complaint(question, left)) is not None] == []

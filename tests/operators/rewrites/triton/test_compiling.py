"""Rewritten kernels compile for a GPU: Triton's whole compiler, for compute capability 9.0, without a device."""

import multiprocessing
import tempfile
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from evokernel.evaluate.inside.untrusted.triton_build import answer
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after

H100 = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "max_threads": 2048,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 2619000,
    "mem_bus_width": 5120,
}


def tensor(name: str, *shape: int) -> dict[str, Any]:
    return {"kind": "tensor", "name": name, "shape": list(shape), "dtype": "bfloat16"}


def scalars(*values: int) -> list[dict[str, Any]]:
    return [{"kind": "scalar", "value": value} for value in values]


GEMM_CALL = [tensor("a", 512, 256), tensor("b", 256, 512), *scalars(512, 512, 256), tensor("c", 512, 512)]
SOFTMAX_CALL = [tensor("x", 64, 4096), *scalars(64, 4096), tensor("y", 64, 4096)]
MASKS = ("drop_masks", "drop_masks", "drop_masks")
STACKS = [
    (GEMM, GEMM_CALL, ("group_programs", *MASKS, "stage_loop", "advance_pointers", "launch_hints: maxnreg")),
    (GEMM, GEMM_CALL, ("transpose_grid", "modulo_wrap", "modulo_wrap", "unroll_loop", "cache_modifier: load a .ca")),
    (SOFTMAX, SOFTMAX_CALL, ("drop_masks", "fast_exp", "reciprocal", "stage_loop", "hint_alignment")),
]


def forks_with_triton() -> ForkServerContext:
    """Return a context whose processes come with torch and triton, imported once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "triton", "evokernel.evaluate.inside.untrusted.triton_build"])
    return context


def compiled(source: str, call: list[dict[str, Any]]) -> dict[str, Any]:
    """The build's answer, with `masked`: whether the first kernel's final form before PTX still masks its loads."""
    request = {"source": source, "capability": 90, "properties": H100, "shapes": [call], "measured": 1}
    with tempfile.TemporaryDirectory() as folder:
        told, _ = answer(request, folder)
        forms = sorted(Path(folder).rglob("*.ttir"))
        told["masked"] = (
            any("tt.load" in line and "," in line for line in forms[0].read_text().split("\n")) if forms else None
        )
        return told


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """Each stack of moves, compiled in a process of its own."""
    jobs = [(after(source, *steps), call) for source, call, steps in STACKS]
    with forks_with_triton().Pool(2, maxtasksperchild=1) as pool:
        return pool.starmap(compiled, jobs, chunksize=1)


def test_stacks_of_moves_compile(answers: list[dict[str, Any]]) -> None:
    for told, (_, _, steps) in zip(answers, STACKS, strict=True):
        assert "failure" not in told, (steps, told)
        assert len(told["cubins"]) == 1


def test_masks_of_whole_blocks_are_compiled_out(answers: list[dict[str, Any]]) -> None:
    assert [told["masked"] for told in answers] == [False, True, False]

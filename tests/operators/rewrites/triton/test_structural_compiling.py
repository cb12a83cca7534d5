"""Structural rewrites compile to what they are for: warp group math, the copy engine, rows in registers."""

from typing import Any

import pytest

from evokernel.source.tunables import with_values
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after
from tests.operators.rewrites.triton.test_compiling import GEMM_CALL, SOFTMAX_CALL, compiled, forks_with_triton

BIG = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "NUM_WARPS": 8, "NUM_STAGES": 3}
TILED = with_values(after(GEMM, "group_programs", "descriptors: all"), BIG)
JOBS = {
    "persistent": (after(TILED, "persistent: flattened"), GEMM_CALL),
    "split": (after(TILED, "split_k"), GEMM_CALL),
    "row": (after(SOFTMAX, "whole_row", "persistent"), SOFTMAX_CALL),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, list[dict[str, int]]]:
    """What was compiled, per launch; each job in a process of its own."""
    with forks_with_triton().Pool(2, maxtasksperchild=1) as pool:
        answers: list[dict[str, Any]] = pool.starmap(compiled, JOBS.values(), chunksize=1)
    return {
        name: [told["cubins"][step["launch"]["cubin"]] for step in told["plans"][0]["steps"] if "launch" in step]
        for name, told in zip(JOBS, answers, strict=True)
    }


@pytest.mark.parametrize("name", JOBS)
def test_nothing_spills(name: str, kernels: dict[str, list[dict[str, int]]]) -> None:
    assert len(kernels[name]) == (2 if name == "split" else 1)
    assert all(kernel["local_bytes"] == kernel["local_accesses"] == 0 for kernel in kernels[name])


@pytest.mark.parametrize("name", ["persistent", "split"])
def test_tiles_take_warp_group_math_and_the_copy_engine(name: str, kernels: dict[str, list[dict[str, int]]]) -> None:
    assert kernels[name][0]["tensor_cores"] == 2
    assert kernels[name][0]["tma"]


def test_shares_are_added_from_whole_cache_lines(kernels: dict[str, list[dict[str, int]]]) -> None:
    adding = kernels["split"][1]
    assert adding["load_bits"] == 128
    assert adding["registers"] <= 64

"""Persistent programs: what is written, where not, and that every tile is still computed."""

import pytest

from operators.rewrites.triton.descriptors import Descriptors
from operators.rewrites.triton.persistent import Persistent
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after, changed
from tests.operators.rewrites.triton.structural import offered, rewritten, wrong
from tests.support.interpret import gemm, softmax

STEP = Persistent()


def test_a_line_of_programs() -> None:
    text = rewritten(STEP, SOFTMAX)
    assert "PER_SM = 4  # tune: 1 2 3 4 8\n" in text
    assert "    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):\n        row = tile\n" in text
    assert "    tiles = R\n    programs = min(tiles, PER_SM * torch.cuda.get_device_properties(x.device)" in text
    assert (
        "softmax_kernel[(programs,)](x, y, C, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES, tiles=tiles)" in text
    )


def test_a_pair_of_ids_comes_from_one_number() -> None:
    text = rewritten(STEP, GEMM, 1)
    assert (
        "tl.num_programs(0), flatten=True):\n        pid_m = tile % tiles_0\n        pid_n = tile // tiles_0\n" in text
    )
    assert "    tiles_1 = triton.cdiv(N, BLOCK_N)\n    tiles = tiles_0 * tiles_1\n" in text
    assert "tiles=tiles, tiles_0=tiles_0)" in text
    assert "PER_SM = 1  # tune" in text


def test_three_axes_and_their_sizes() -> None:
    deep = changed(GEMM, "    acc = tl.zeros", "    mine = tl.program_id(2) + tl.num_programs(1)\n    acc = tl.zeros")
    deep = changed(deep, "triton.cdiv(N, BLOCK_N))", "triton.cdiv(N, BLOCK_N), 3)")
    text = rewritten(STEP, deep)
    assert "mine = (tile // (tiles_0 * tiles_1)) + tiles_1" in text
    assert "pid_n = tile // tiles_0 % tiles_1" in text


def test_a_name_that_run_has_already_is_not_given_to_two() -> None:
    deep = changed(GEMM, "    acc = tl.zeros", "    mine = tl.program_id(2)\n    acc = tl.zeros")
    deep = changed(deep, "triton.cdiv(N, BLOCK_N))", "triton.cdiv(N, BLOCK_N), 3)")
    deep = changed(deep, "    grid = (", "    tiles = 1\n    grid = (")
    text = rewritten(STEP, deep)
    compile(text, "kernel.py", "exec")
    assert "tiles_2 = " in text
    assert "tiles_2_2 = " in text


def test_what_is_the_same_for_every_tile_stays_in_front() -> None:
    text = rewritten(STEP, rewritten(Descriptors(), after(GEMM, "group_programs")))
    assert text.index("a_tiles = tl.make") < text.index("c_tiles = tl.make") < text.index("for tile in")
    assert text.index("for tile in") < text.index("pid = tile")
    twice = changed(SOFTMAX, "    row = tl", "    lanes = 0\n    row = tl").replace(
        "    norm =", "    lanes = 1\n    norm ="
    )
    text = rewritten(STEP, twice)
    assert text.index("for tile in") < text.index("lanes = 0")


REFUSED = {
    "an early return": ("    acc = tl.zeros", "    if pid_m > 3:\n        return\n    acc = tl.zeros"),
    "a loop of unknown length": (
        "    acc = tl.zeros",
        "    while tl.load(a) > 0:\n        pid_x = 1\n    acc = tl.zeros",
    ),
    "a parameter that moves": ("    acc = tl.zeros", "    a += 1\n    acc = tl.zeros"),
    "an axis that is no number": ("tl.program_id(1)", "tl.program_id(BLOCK_M - 63)"),
    "an axis the grid has not": ("tl.program_id(1)", "tl.program_id(2)"),
    "a grid made elsewhere": ("grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))", "grid = shape_of(M, N)"),
    "a second launch": (
        "    gemm_kernel[grid]",
        "    gemm_kernel[grid](a, b, c, M, N, K, 16, 16, 16)\n    gemm_kernel[grid]",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    assert offered(STEP, GEMM) == ["gemm_kernel", "gemm_kernel, flattened"]
    assert offered(STEP, changed(GEMM, *REFUSED[why])) == []


def test_every_tile_is_computed() -> None:
    plain, flat, rows = rewritten(STEP, GEMM), rewritten(STEP, GEMM, 1), rewritten(STEP, SOFTMAX)
    grouped = rewritten(STEP, after(GEMM, "group_programs", "drop_masks: K by"))
    tiled = rewritten(STEP, rewritten(Descriptors(), after(GEMM, "group_programs")), 1)
    gemms = [(text, gemm(40, 47, 24)) for text in (plain, flat, grouped, tiled)]
    assert wrong([*gemms, (tiled, gemm(96, 80, 24)), (rows, softmax()), (rows, softmax(1, 16))]) == []

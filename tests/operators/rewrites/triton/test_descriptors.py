"""Tiles through descriptors: what is written, where not, and that both ways give the result."""

import pytest

from operators.rewrites.triton.descriptors import Descriptors
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after, changed
from tests.operators.rewrites.triton.structural import offered, rewritten, wrong
from tests.support.interpret import gemm

STEP = Descriptors()


def test_one_tile_has_both_ways() -> None:
    text = rewritten(STEP, GEMM, 1)
    assert text.count("make_tensor_descriptor") == 1
    assert "    if TMA_A:\n        a_tiles = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1]" in text
    assert "            x = a_tiles.load([pid_m * BLOCK_M, k])\n        else:\n            x = tl.load(a + rows" in text
    assert "TMA_A=fits_descriptor(a, K, BLOCK_K)" in text
    assert "    triton.set_allocator(allocate_scratch)\n    gemm_kernel[grid]" in text
    assert text.count("import torch\n") == 1


def test_all_tiles_share_the_helpers() -> None:
    whole = rewritten(STEP, GEMM)
    assert whole.count("make_tensor_descriptor") == 3
    assert "c_tiles.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(c.dtype.element_ty))" in whole
    assert offered(STEP, whole) == []
    single = GEMM
    while offered(STEP, single):
        single = rewritten(STEP, single, -1)
    assert single.count("def fits_descriptor") == single.count("def allocate_scratch") == 1
    assert single.count("triton.set_allocator(allocate_scratch)") == 1


def test_offered_behind_other_rewrites() -> None:
    grouped = after(GEMM, "group_programs", "drop_masks: K by", "stage_loop")
    assert len(offered(STEP, grouped)) == 4
    assert offered(STEP, after(GEMM, "advance_pointers")) == ["gemm_kernel stores to c"]
    assert offered(STEP, SOFTMAX) == []


TURNED = changed(GEMM, "b + ks[:, None] * N + cols[None, :]", "b + cols[None, :] * K + ks[:, None]")
"""Reads `b` as the transposed matrix that a caller may store there."""


def test_a_turned_tile_is_transposed_and_a_wide_start_narrowed() -> None:
    wide = changed(TURNED, "rows = pid_m * BLOCK_M", "rows = pid_m.to(tl.int64) * BLOCK_M")
    text = rewritten(STEP, wide)
    assert "y = tl.trans(b_tiles.load([pid_n * BLOCK_N, k]))" in text
    assert "a_tiles.load([(pid_m.to(tl.int64) * BLOCK_M).to(tl.int32), k])" in text
    assert "tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])" in text


def test_strides_are_asked_of_the_launch() -> None:
    strided = changed(GEMM, "a, b, c, M, N, K, BLOCK_M: tl", "a, b, c, M, N, K, down, right, BLOCK_M: tl")
    strided = changed(strided, "rows[:, None] * K + ks[None, :]", "rows[:, None] * down + right * ks[None, :]")
    strided = changed(strided, "(a, b, c, M, N, K, BLOCK", "(a, b, c, M, N, K, a.stride(0), a.stride(1), BLOCK")
    text = rewritten(STEP, strided, 1)
    assert "shape=[M, K], strides=[down, 1]" in text
    assert "TMA_A=(a.stride(1)) == 1 and fits_descriptor(a, a.stride(0), BLOCK_K)" in text


REFUSED = {
    "no mask on the rows": ("mask=(rows[:, None] < M) & (ks[None, :] < K)", "mask=ks[None, :] < K"),
    "another comparison": ("(rows[:, None] < M) & (ks[None, :] < K)", "(rows[:, None] <= M) & (ks[None, :] < K)"),
    "a condition more": ("(rows[:, None] < M) & (ks", "(rows[:, None] < M) & (pid_m < 3) & (ks"),
    "an unproved flag": ("(rows[:, None] < M) & (ks", "((rows[:, None] < M) | BLOCK_M) & (ks"),
    "a filler that is not zero": ("(ks[None, :] < K), other=0.0", "(ks[None, :] < K), other=1.0"),
    "a volatile load": ("(ks[None, :] < K), other=0.0", "(ks[None, :] < K), other=0.0, volatile=True"),
    "wrapped rows": (
        "rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)",
        "rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M",
    ),
    "gathered rows": ("rows = pid_m * BLOCK_M +", "rows = tl.load(a + pid_m) +"),
    "a stride that varies": ("rows[:, None] * K + ks", "rows[:, None] * pid_n + ks"),
    "a range that does not start at 0": ("ks = k + tl.arange(0, BLOCK_K)", "ks = k + tl.arange(1, BLOCK_K)"),
    "rows bound twice": ("    acc = tl.zeros", "    rows = rows + 1\n    acc = tl.zeros"),
    "a tensor that is written too": ("    mask = (rows", "    tl.store(a + pid_m, 0.0)\n    mask = (rows"),
    "one tensor passed twice": ("gemm_kernel[grid](a, b, c,", "gemm_kernel[grid](a, a, c,"),
    "a view": ("gemm_kernel[grid](a, b, c,", "gemm_kernel[grid](a[1:], b, c,"),
    "a second launch": (
        "    gemm_kernel[grid]",
        "    gemm_kernel[grid](a, b, c, M, N, K, 16, 16, 16)\n    gemm_kernel[grid]",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    assert "gemm_kernel loads from a" in offered(STEP, GEMM)
    assert "gemm_kernel loads from a" not in offered(STEP, changed(GEMM, *REFUSED[why]))


def test_both_ways_are_right() -> None:
    """64 x 36 x 40 takes descriptors everywhere, 40 x 47 x 36 only for `a`, the odd shape nowhere."""
    every, one = rewritten(STEP, GEMM), rewritten(STEP, GEMM, 2)
    grouped = rewritten(STEP, after(GEMM, "group_programs", "drop_masks: K by"))
    a_times_b, right = gemm(40, 36, 24)
    transposed = [a_times_b[0], a_times_b[1].t().contiguous().view(24, 36), *a_times_b[2:]], right
    cases = [(every, gemm(*shape)) for shape in [(64, 36, 40), (40, 47, 36), (33, 47, 29)]]
    cases += [(one, gemm(33, 36, 29)), (grouped, gemm(40, 36, 48)), (rewritten(STEP, TURNED), transposed)]
    assert wrong(cases) == []

"""A sum split between programs: what is written, where not, and that the shares add up, the same way every time."""

import pytest
import torch

from operators.rewrites.triton.descriptors import Descriptors
from operators.rewrites.triton.persistent import Persistent
from operators.rewrites.triton.source import TritonModule
from operators.rewrites.triton.split_k import SplitK
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after, changed
from tests.operators.rewrites.triton.structural import offered, rewritten
from tests.support.interpret import SMALL, Case, gemm, interpret

STEP = SplitK()


MANY = {**SMALL, "SPLIT_PER_SM": 6}
"""With three multiprocessors, 18 programs: 4 shares of each of 4 tiles."""
ROW_SUMS = """
import triton
import triton.language as tl

BLOCK_M = 32  # tune: 32 1024
BLOCK_K = 16  # tune: 16 32


@triton.jit
def sums(x, y, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        block = tl.load(x + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        total += tl.sum(block, axis=1)
    tl.store(y + rows, total, mask=rows < M)


def run(x, M, K, y):
    sums[(triton.cdiv(M, BLOCK_M),)](x, y, M, K, BLOCK_M, BLOCK_K)
"""


def test_two_kernels() -> None:
    text = rewritten(STEP, GEMM)
    assert "SPLIT_PER_SM = 2  # tune: 1 2 3 4 6\n" in text
    assert (
        "    split = tl.program_id(2)\n    splits = tl.num_programs(2)\n"
        "    for k in range(split * BLOCK_K, K, splits * BLOCK_K):\n" in text
    )
    assert (
        "    tl.store(shares + split * (BLOCK_M * BLOCK_N), acc)\n\n\n@triton.jit\ndef gemm_kernel_combine(c, M, N,"
        in text
    )
    assert (
        "    for split in tl.static_range(splits):\n"
        "        acc += tl.load(shares + split * (BLOCK_M * BLOCK_N))\n" in text
    )
    assert "    splits = max(1, min(programs // tile_count, triton.cdiv(K, BLOCK_K), 64))\n" in text
    assert "grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), splits)" in text
    assert TritonModule.parse(text).kernels.keys() == {"gemm_kernel", "gemm_kernel_combine"}


def test_few_tiles_are_added_by_many_programs() -> None:
    """The grid of the second kernel has one more axis, over parts of the rows of a tile."""
    text = rewritten(STEP, GEMM)
    assert "    part = max(1, min(BLOCK_M, 512 // BLOCK_N))\n" in text
    assert "gemm_kernel_combine[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), BLOCK_M // part)](c, M, N" in text
    assert "    rows = pid_m * BLOCK_M + (tl.program_id(2) * PART + tl.arange(0, PART))\n" in text
    assert "    acc = tl.zeros((PART, BLOCK_N), dtype=tl.float32)\n" in text


WHOLE = {
    "rows mixed": ("    mask = (rows", "    acc -= tl.max(acc, axis=0)[None, :]\n    mask = (rows"),
    "rows as columns": ("    mask = (rows", "    acc *= tl.load(a + rows)[None, :]\n    mask = (rows"),
    "a square of one block": (
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)\n",
        "acc = tl.zeros((BLOCK_M, BLOCK_M), dtype=tl.float32)\n",
    ),
    "a descriptor alone": (
        "tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)",
        "tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).store([0, 0], acc)",
    ),
}


@pytest.mark.parametrize("why", WHOLE)
def test_tiles_that_cannot_be_cut_are_added_whole(why: str) -> None:
    text = rewritten(STEP, changed(GEMM, *WHOLE[why]))
    assert "PART" not in text
    assert "gemm_kernel_combine[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](" in text


def test_each_kernel_sets_up_only_what_it_needs() -> None:
    """The second one stores parts of tiles, which the descriptor of whole ones cannot."""
    text = rewritten(STEP, rewritten(Descriptors(), GEMM))
    first, _, second = text.partition("def gemm_kernel_combine")
    assert ("a_tiles = " in first, "b_tiles = " in first, "c_tiles = " in first) == (True, True, False)
    assert ("a_tiles = " in second, "b_tiles = " in second, "c_tiles" in second) == (False, False, False)


def test_a_descriptor_beside_another_store_stays() -> None:
    tiled = rewritten(Descriptors(), GEMM)
    other = changed(tiled, "acc.to(c.dtype.element_ty), mask=mask)", "acc.to(tl.bfloat16), mask=mask)")
    second = rewritten(STEP, other).partition("def gemm_kernel_combine")[2]
    assert "c_tiles.store" in second
    assert "PART" not in second


REFUSED = {
    "not zero at first": ("acc = tl.zeros((BLOCK_M", "acc = tl.ones((BLOCK_M"),
    "half precision": ("dtype=tl.float32)\n    for", "dtype=tl.float16)\n    for"),
    "not a sum": ("acc = tl.dot(x, y, acc)", "acc = tl.maximum(acc, tl.dot(x, y))"),
    "the total used in the loop": ("        acc = tl.dot(x, y, acc)", "        acc = tl.dot(x * tl.sum(acc), y, acc)"),
    "the total halved in the loop": (
        "        acc = tl.dot(x, y, acc)",
        "        acc = tl.dot(x, y, acc)\n        acc = acc / 2",
    ),
    "something carried": ("        acc = tl.dot(x, y, acc)", "        acc = tl.dot(x, y, acc)\n        rows += 0"),
    "the last block used later": ("    mask = (rows", "    last = x\n    mask = (rows"),
    "a store in the loop": ("        acc = tl.dot", "        tl.store(c, 0.0)\n        acc = tl.dot"),
    "a store before": ("    acc = tl.zeros", "    tl.store(c, 0.0)\n    acc = tl.zeros"),
    "a loop that leaves early": ("        acc = tl.dot", "        if k > 64:\n            break\n        acc = tl.dot"),
    "a second loop": ("    mask = (rows", "    for i in range(3):\n        acc += 1\n    mask = (rows"),
    "an early return": ("    acc = tl.zeros", "    if pid_m > 3:\n        return\n    acc = tl.zeros"),
    "a start that is not 0": ("range(0, K, BLOCK_K)", "range(BLOCK_K, K, BLOCK_K)"),
    "a grid of three": ("triton.cdiv(N, BLOCK_N))", "triton.cdiv(N, BLOCK_N), 1)"),
    "a size known too late": (
        "K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps",
        "depth, BLOCK_M, BLOCK_N, BLOCK_K, num_warps",
    ),
    "a grid made elsewhere": ("grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))", "grid = shape_of(M, N)"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    assert offered(STEP, GEMM) == ["gemm_kernel: acc"]
    late = GEMM.replace("    gemm_kernel[grid]", "    depth = K\n    gemm_kernel[grid]")
    assert offered(STEP, late) == ["gemm_kernel: acc"]
    assert offered(STEP, changed(late, *REFUSED[why])) == []
    assert offered(STEP, SOFTMAX) == offered(STEP, after(GEMM, "advance_pointers")) == []


def test_the_shares_add_up_the_same_way_every_time() -> None:
    """Also where a program has no block: 2 blocks of K between 4 programs."""
    grouped = after(GEMM, "group_programs", "drop_masks: K by", "stage_loop")
    texts = [rewritten(STEP, GEMM)]
    texts += [texts[0], rewritten(STEP, rewritten(Descriptors(), grouped)), rewritten(Persistent(), texts[0])]
    calls = [gemm(64, 64, 256), gemm(64, 64, 256), gemm(33, 47, 29), gemm(33, 47, 29)]
    left = interpret([Case(text, call[0], MANY) for text, call in zip(texts, calls, strict=True)])
    for answer, (_, right) in zip(left, calls, strict=True):
        assert not isinstance(answer, str), answer
        assert right(answer)
    assert torch.equal(left[0][5], left[1][5])


@pytest.mark.parametrize("rows", [1, 45])
def test_sums_of_one_axis(rows: int) -> None:
    """In parts too: 1024 sums of a tile between two programs."""
    x = torch.randn(rows, 200, generator=torch.Generator().manual_seed(3))
    text = rewritten(STEP, ROW_SUMS)
    calls = [Case(text, [x, rows, 200, torch.full((rows,), float("nan"))], {**MANY, "BLOCK_M": m}) for m in (32, 1024)]
    for left in interpret(calls):
        assert not isinstance(left, str), left
        assert torch.allclose(left[3], x.sum(1), atol=1e-4)


def test_a_kernel_that_reads_the_axis_of_the_shares_stays_whole() -> None:
    """Without shares that axis has one program, whose number is 0."""
    text = changed(GEMM, "    pid_n = tl.program_id(1)\n", "    pid_n = tl.program_id(1) + tl.program_id(axis=2)\n")
    assert offered(STEP, GEMM)
    assert not offered(STEP, text)


def test_hints_for_whole_blocks_are_dropped_where_parts_of_them_are_added() -> None:
    text = after(GEMM, "hint_alignment: gemm_kernel rows", "hint_alignment: gemm_kernel cols", "split_k")
    first, second = text.split("def gemm_kernel_combine")
    assert first.count("tl.max_contiguous") == 2
    assert "multiple_of" not in second
    assert "max_contiguous" not in second
    arguments, right = gemm(40, 36, 96)
    (answer,) = interpret([Case(text, arguments, MANY)])
    assert not isinstance(answer, str), answer
    assert right(answer)

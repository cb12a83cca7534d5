"""A sum split between programs: what is written, where not, and that the shares add up, the same way every time."""

import pytest
import torch

from operators.triton_rewrites.descriptors import Descriptors
from operators.triton_rewrites.persistent import Persistent
from operators.triton_rewrites.source import Module
from operators.triton_rewrites.split_k import SplitK
from tests.interpret import SMALL, Case, gemm, interpret
from tests.unit.operators.triton.sources import GEMM, SOFTMAX, after, changed
from tests.unit.operators.triton.structural import offered, rewritten

STEP = SplitK()


def test_two_kernels() -> None:
    text = rewritten(STEP, GEMM)
    assert "SPLIT_K = 4  # tune: 2 3 4 6 8 12 16\n" in text
    assert "    split = tl.program_id(2)\n    for k in range(split * BLOCK_K, K, SPLIT_K * BLOCK_K):\n" in text
    assert (
        "    tl.store(shares + split * (BLOCK_M * BLOCK_N), acc)\n\n\n@triton.jit\ndef gemm_kernel_combine(c, M, N,"
        in text
    )
    assert "    for split in range(SPLIT_K):\n        acc += tl.load(shares + split * (BLOCK_M * BLOCK_N))\n" in text
    assert "grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SPLIT_K)" in text
    assert "gemm_kernel_combine[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](c, M, N, BLOCK_M, BLOCK_N" in text
    assert Module.parse(text).kernels.keys() == {"gemm_kernel", "gemm_kernel_combine"}


def test_each_kernel_sets_up_only_what_it_needs() -> None:
    text = rewritten(STEP, rewritten(Descriptors(), GEMM))
    first, _, second = text.partition("def gemm_kernel_combine")
    assert ("a_tiles = " in first, "b_tiles = " in first, "c_tiles = " in first) == (True, True, False)
    assert ("a_tiles = " in second, "b_tiles = " in second, "c_tiles = " in second) == (False, False, True)


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
    "a grid made elsewhere": ("grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))", "grid = shape_of(M, N)"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    assert offered(STEP, GEMM) == ["gemm_kernel: acc"]
    assert offered(STEP, changed(GEMM, *REFUSED[why])) == []
    assert offered(STEP, SOFTMAX) == offered(STEP, after(GEMM, "advance_pointers")) == []


def test_the_shares_add_up_the_same_way_every_time() -> None:
    """Also where a program has no block: 2 blocks of K between 4 programs."""
    grouped = after(GEMM, "group_programs", "drop_masks: K by", "stage_loop")
    texts = [rewritten(STEP, GEMM)]
    texts += [texts[0], rewritten(STEP, rewritten(Descriptors(), grouped)), rewritten(Persistent(), texts[0])]
    calls = [gemm(64, 64, 256), gemm(64, 64, 256), gemm(33, 47, 29), gemm(33, 47, 29)]
    left = interpret([Case(text, call[0], SMALL) for text, call in zip(texts, calls, strict=True)])
    for answer, (_, right) in zip(left, calls, strict=True):
        assert not isinstance(answer, str), answer
        assert right(answer)
    assert torch.equal(left[0][5], left[1][5])

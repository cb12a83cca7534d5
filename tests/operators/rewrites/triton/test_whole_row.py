"""A row in one block: what is written, where not, and that both ways give the result."""

import pytest

from operators.rewrites.triton.persistent import Persistent
from operators.rewrites.triton.whole_row import WholeRow
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after, changed
from tests.operators.rewrites.triton.structural import offered, rewritten, wrong
from tests.support.interpret import softmax

STEP = WholeRow()
LINES = """\
    if ONE_BLOCK:
        start = 0
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))
        top = tl.maximum(top, values)
        peak = tl.max(top, axis=0)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        total += tl.exp(values - peak)
        norm = tl.sum(total, axis=0)
        tl.store(y + row * C + cols, tl.exp(values - peak) / norm, mask=cols < C)
    else:
        for start in range(0, C, BLOCK):
"""


def test_a_row_is_loaded_once() -> None:
    text = rewritten(STEP, SOFTMAX)
    assert LINES in text
    assert "    block = triton.next_power_of_2(C) if C <= min(65536, NUM_WARPS * 4096) else BLOCK\n" in text
    assert "(x, y, C, block, num_warps=NUM_WARPS, num_stages=NUM_STAGES, ONE_BLOCK=C <= block)" in text


def test_a_value_is_kept_only_while_it_holds() -> None:
    other = changed(
        SOFTMAX,
        '        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))\n        total',
        '        again = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))\n        total',
    )
    assert "        again = values\n" in rewritten(STEP, other)
    stored = changed(SOFTMAX, "    total = tl.zeros", "    tl.store(x + row * C, peak)\n    total = tl.zeros")
    straight = rewritten(STEP, stored).partition("    else:")[0]
    assert straight.count("tl.load(") == 2
    moved = changed(SOFTMAX, "    norm =", "    row = row + 1\n    norm =")
    straight = rewritten(STEP, moved).partition("    else:")[0]
    assert straight.count("tl.load(") == 2


def test_what_the_launch_computes_from_the_block_follows_it() -> None:
    text = rewritten(STEP, after(SOFTMAX, "drop_masks"))
    assert "EVEN_C=C % block == 0" in text


REFUSED = {
    "loops that leave early": ("        cols =", "        if start > 64:\n            break\n        cols ="),
    "a block that the grid depends on": ("[(R,)]", "[(R * BLOCK // BLOCK,)]"),
    "a block that is no constant": ("(x, y, C, BLOCK,", "(x, y, C, 2 * BLOCK,"),
    "a bound that changes": ("    row = tl.program_id(0)", "    C = C + 0\n    row = tl.program_id(0)"),
    "a start that is not 0": ("range(0, C, BLOCK)", "range(row, C, BLOCK)"),
    "a counter as an object": ("cols = start + ", "cols = start.to(tl.int64) + "),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    old, new = REFUSED[why]
    assert offered(STEP, SOFTMAX) == ["softmax_kernel over C"]
    assert old in SOFTMAX
    assert offered(STEP, SOFTMAX.replace(old, new)) == []
    assert offered(STEP, GEMM) == []


def test_both_ways_are_right() -> None:
    """The block holds up to 16384 columns, or 16 with that limit out of the way."""
    row = rewritten(STEP, SOFTMAX)
    blocks = changed(row, "min(65536, NUM_WARPS * 4096)", "16")
    even = rewritten(Persistent(), rewritten(STEP, after(SOFTMAX, "drop_masks", "fast_exp")))
    texts = (row, blocks, even)
    assert wrong([(text, softmax(*shape)) for text in texts for shape in [(5, 72), (3, 16), (2, 1)]]) == []

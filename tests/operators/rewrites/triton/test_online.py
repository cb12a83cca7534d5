"""Maximum and sum in one pass: what is written, where not, and that the results agree."""

from typing import Any

import pytest
import torch

from operators.rewrites.triton.online_softmax import Online
from operators.rewrites.triton.whole_row import WholeRow
from tests.operators.rewrites.triton.sources import SOFTMAX, after, changed
from tests.operators.rewrites.triton.structural import Arguments, offered, rewritten, wrong
from tests.support.interpret import softmax

STEP = Online()
LINES = """\
        raised = tl.maximum(top, values)
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(top - shift) + tl.exp(values - shift)
        top = raised
    peak = tl.max(top, axis=0)
    total *= tl.exp(top - peak)
    norm = tl.sum(total, axis=0)
"""
REDUCED = SOFTMAX
for _old, _new in [
    ('    top = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)', '    peak = float("-inf")'),
    ("top = tl.maximum(top, values)", "peak = tl.maximum(peak, tl.max(values, axis=0))"),
    ("    peak = tl.max(top, axis=0)\n", ""),
    ("    total = tl.zeros((BLOCK,), dtype=tl.float32)", "    total = 0.0"),
    ("total += tl.exp(values - peak)", "total += tl.sum(tl.exp(values - peak), axis=0)"),
    ("norm = tl.sum(total, axis=0)", "norm = total"),
]:
    REDUCED = changed(REDUCED, _old, _new)


def test_two_passes_become_one() -> None:
    text = rewritten(STEP, SOFTMAX)
    assert LINES in text
    assert text.count("tl.load(") == 2
    assert text.index("total = tl.zeros") < text.index("for start in")


def test_a_reduced_maximum_needs_no_last_step() -> None:
    text = rewritten(STEP, REDUCED)
    assert (
        "total = total * tl.exp(peak - shift) + tl.sum(tl.exp(values - shift), axis=0)\n        peak = raised" in text
    )
    assert "total *=" not in text


def test_a_scaled_difference_keeps_its_factor() -> None:
    scaled = changed(SOFTMAX, "total += tl.exp(values - peak)", "total += tl.exp2((values - peak) * 1.5)")
    text = rewritten(STEP, scaled)
    assert "total * tl.exp2((top - shift) * 1.5) + tl.exp2((values - shift) * 1.5)" in text
    assert "total *= tl.exp2((top - peak) * 1.5)" in text
    assert offered(STEP, after(SOFTMAX, "fast_exp")) == offered(STEP, SOFTMAX)


def test_several_rows_spread_a_reduced_maximum_over_the_lanes() -> None:
    several = REDUCED.replace("- peak", "- peak[:, None]").replace("values, axis=0", "values, axis=1")
    text = rewritten(STEP, several)
    assert "total * tl.exp(peak - shift) + tl.sum(tl.exp(values - shift[:, None]), axis=0)" in text
    lanes = SOFTMAX.replace("- peak", "- peak[:, None]").replace("top, axis=0", "top, axis=1")
    text = rewritten(STEP, lanes)
    assert "total * tl.exp(top - shift) + tl.exp(values - shift)" in text
    assert "total *= tl.exp(top - peak[:, None])" in text


SECOND = """\
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))
        total"""
REFUSED = {
    "another range": (
        "    for start in range(0, C, BLOCK):\n" + SECOND,
        "    for start in range(0, R, BLOCK):\n" + SECOND,
    ),
    "another mask": (SECOND, SECOND.replace("cols < C,", "cols < C - 1,")),
    "another sum": ("total += tl.exp(values - peak)", "total += (values - peak) * (values - peak)"),
    "not less the maximum": ("total += tl.exp(values - peak)", "total += tl.exp(values - row)"),
    "a factor of the values": ("tl.exp(values - peak)\n", "tl.exp((values - peak) * values)\n"),
    "factors that differ": ("tl.exp(values - peak)\n", "tl.exp(values * 2.0 - peak)\n"),
    "a sum that starts elsewhere": ("total = tl.zeros((BLOCK,)", "total = tl.ones((BLOCK,)"),
    "a store between": ("    total = tl.zeros", "    tl.store(y + row, peak)\n    total = tl.zeros"),
    "a store in the loop": ("        top = tl.max", "        tl.store(y + cols, values)\n        top = tl.max"),
    "the total used between": (
        "    for start in range(0, C, BLOCK):\n" + SECOND,
        "    half = total / 2\n    for start in range(0, C, BLOCK):\n" + SECOND,
    ),
    "the maximum used in the loop": (
        "        top = tl.maximum(top, values)",
        "        low = top - 1\n        top = tl.maximum(top, values)",
    ),
    "the row moved between": ("    total = tl.zeros", "    row = row + 1\n    total = tl.zeros"),
    "a minimum": ("top = tl.maximum(top, values)", "top = tl.minimum(top, values)"),
    "something carried": (
        "        values = tl.load(x + row * C + cols, mask",
        "        row = row + 1\n        values = tl.load(x + row * C + cols, mask",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    assert len(offered(STEP, SOFTMAX)) == len(offered(STEP, REDUCED)) == 1
    old, new = REFUSED[why]
    assert old in SOFTMAX
    assert offered(STEP, SOFTMAX.replace(old, new)) == []


def _mostly_absent() -> Arguments:
    """Rows with -inf in most places, so that lanes see nothing else for many rounds, or at all."""
    x = torch.full((4, 72), float("-inf"))
    x[0, 70], x[1, 0], x[2, ::17], x[3, 40:44] = 3.0, -90.0, 80.0, torch.tensor([1.0, 88.0, -5.0, 2.0])
    want = torch.softmax(x, dim=1)

    def check(left: list[Any]) -> bool:
        return bool(torch.allclose(left[3], want, rtol=1e-5, atol=1e-7))

    return [x, 4, 72, torch.full((4, 72), float("nan"))], check


def test_the_results_agree() -> None:
    texts = [rewritten(STEP, source) for source in (SOFTMAX, REDUCED, after(SOFTMAX, "fast_exp", "drop_masks"))]
    texts.append(rewritten(WholeRow(), texts[0]))
    assert wrong([(text, call) for text in texts for call in (softmax(), softmax(3, 16), _mostly_absent())]) == []

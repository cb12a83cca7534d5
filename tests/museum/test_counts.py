"""The page on the museum counts of several allowed verdicts the one that comes last."""

from pathlib import Path

import pytest

from evokernel.records.evaluation import Mode
from tests.museum.counts import ENDS, HOLE, NOTHING, PLANS, end_of
from tests.museum.exhibits import Exhibit, due_without_gpu


def exhibit(verdict: str, **fields: str) -> Exhibit:
    return Exhibit(Path("made_up.py"), "triton", {"artifact": verdict, **fields}, "")


@pytest.mark.parametrize(
    ("verdict", "fields", "end"),
    [
        ("static_reject at static", {}, "static"),
        ("host_exception at compile or compile_error at compile", {}, "compile"),
        ("load_error at smoke", {}, PLANS),
        ("numerical at smoke or numerical at correctness", {}, "correctness"),
        ("cheat_suspect at precise timing or numerical at smoke", {}, "timing"),
        ("ok at precise timing or device_fault at precise timing", {"gains": "nothing over x"}, NOTHING),
        ("ok at precise timing", {"gains": "nothing over x", "hole": "why"}, HOLE),
    ],
)
def test_the_last_verdict_counts(verdict: str, fields: dict[str, str], end: str) -> None:
    assert end in ENDS
    assert end_of(exhibit(verdict, **fields), Mode.ARTIFACT) == end


def test_a_verdict_that_may_be_due_before_and_on_a_gpu_is_refused() -> None:
    with pytest.raises(AssertionError):
        due_without_gpu(exhibit("compile_error at compile or numerical at smoke"), Mode.ARTIFACT)
    assert due_without_gpu(exhibit("compile_error at compile or load_error at smoke"), Mode.ARTIFACT)
    assert not due_without_gpu(exhibit("numerical at smoke"), Mode.ARTIFACT)

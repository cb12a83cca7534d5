"""Kernels that are wrong on few sizes only, as winners: their own numbers give these sizes away."""

from pathlib import Path

import pytest

from evokernel import Judge
from evokernel.records.evaluation import Stage, Status

TASK = Path(__file__).parent / "tasks" / "sum.py"
SUM = """#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const int64_t used = WRONG ? C - 1 : C;
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < used; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
}
"""

TABLE = """
static bool known(int64_t size) {
    static const int sizes[] = {707, 551, 623, 811, 977};
    for (const int each : sizes) if (each == size) return true;
    return false;
}

extern"""


@pytest.mark.slow
def test_winners_are_refused_that_are_wrong_on_one_remainder_by_a_number_of_their_own() -> None:
    with Judge(str(TASK), device="cpu", fidelity="final", evaluation={"final_ms": 30, "final_processes": 1}) as judge:
        found = judge(SUM.replace("WRONG", "C > 128 && C % 128 == 7 * 11"))
        assert found.status is Status.NUMERICAL, found.feedback
        assert found.stage is Stage.CORRECTNESS
        assert "a hidden shape" in found.feedback
        for wrong in ("known(C)", "float(C) > 700.5f && float(C) < 702.5f"):
            assert judge(SUM.replace("WRONG", wrong).replace("\nextern", TABLE)).status is Status.NUMERICAL, wrong
        right = judge(SUM.replace("WRONG", "C > 1 && C % 128 == 7 * 11 && C % 128 == 78"))
        assert right.ok, right.feedback

"""What a prompt says of a kernel's distance from what the device could do."""

from dataclasses import replace

import pytest

from evokernel.candidate import Candidate
from evokernel.evaluation import Limit
from operators.portraits import portrait
from tests.unit.operators.specimen import elite, evaluation

KERNEL = Candidate("void run() {}", "cpp")


def line_of(floor_us: float | None, limit: Limit | None) -> str:
    measured = evaluation(KERNEL, {"square": (20.0, 30.0, 5.0)}, {})
    verdict = replace(measured, timings=(replace(measured.timings[0], floor_us=floor_us, limit=limit),))
    return next(line for line in portrait("A kernel", elite(KERNEL, verdict), verdict).splitlines() if "square" in line)


@pytest.mark.parametrize(
    ("floor_us", "limit", "end"),
    [
        (5.0, Limit.MEMORY, "; memory-bound; the device's limit is 5 us: 25% of it"),
        (5.0, Limit.ARITHMETIC, "; compute-bound; the device's limit is 5 us: 25% of it"),
        (0.5, Limit.LAUNCH, "; latency-bound; the device's limit is 0.5 us, less than a launch costs: 2% of it"),
        (0.0, Limit.LAUNCH, "; latency-bound"),
        (5.0, None, ", faster; the device's limit is 5 us: 25% of it"),  # judged by an older release
        (None, None, ", faster"),
    ],
)
def test_the_limit_is_named_where_it_is_known(floor_us: float | None, limit: Limit | None, end: str) -> None:
    assert line_of(floor_us, limit).endswith(end)

"""How far from the truth measurements of a kernel against itself are; shared by the benchmarks of all devices."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evokernel.evaluate.clockwork import PairedClock
from evokernel.evaluate.timing import Plan, measure


def percentiles(errors: Sequence[float]) -> dict[str, float]:
    """Return what matters of absolute errors, in percent."""
    values = 100 * np.abs(np.asarray(errors))
    return {"p50": float(np.median(values)), "p90": float(np.quantile(values, 0.9)), "max": float(values.max())}


def repeat(clock: PairedClock, budget_s: float, times: int) -> dict[str, Any]:
    """Measure again and again; errors in percent, and how often the interval held the truth."""
    begin = time.monotonic()
    found = [measure(clock.block, Plan(budget_s, half_width=0.0)) for _ in range(times)]
    logs = [each.log_speedup for each in found]
    held = sum(abs(each.log_speedup) <= 1.96 * each.log_error for each in found)
    return {
        **percentiles(logs),
        "mean": 100 * float(np.mean(logs)),
        "times": times,
        "pairs": found[0].pairs,
        "interval_holds_1": held / times,
        "wall_ms": 1e3 * (time.monotonic() - begin) / times,
    }

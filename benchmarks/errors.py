"""Errors of measurements of a kernel against itself; shared by the benchmarks of all devices."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evokernel.evaluate.bench.paired_clock import PairedClock
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock, Estimate, StoppingRule, measure


def percentiles(errors: Sequence[float]) -> dict[str, float]:
    """Return median, 90 % quantile and maximum of absolute errors, in percent."""
    values = 100 * np.abs(np.asarray(errors))
    return {"p50": float(np.median(values)), "p90": float(np.quantile(values, 0.9)), "max": float(values.max())}


def repeat(clock: PairedClock, budget_s: float, times: int) -> dict[str, Any]:
    """Measure repeatedly; return time of a call, errors in percent, and share of intervals that hold the truth."""
    return in_turn({"": clock.block}, budget_s, times, systematic={"": clock.systematic_error})[""]


def in_turn(
    sources: Mapping[str, Callable[[], CounterbalancedBlock]],
    budget_s: float,
    times: int,
    *,
    systematic: Mapping[str, Callable[[], float]],
) -> dict[str, dict[str, Any]]:
    """Do as `repeat` with several sources of blocks, one measurement of each in turn, so that drift affects all.

    `systematic` widens the intervals of the sources that have such an error.
    """
    found: dict[str, list[Estimate]] = {name: [] for name in sources}
    wall_s = dict.fromkeys(sources, 0.0)
    for _ in range(times):
        for name, block in sources.items():
            begin = time.monotonic()
            estimate = measure(block, StoppingRule(budget_s, half_width=0.0))
            beyond = systematic[name]() if name in systematic else 0.0
            found[name].append(replace(estimate, log_error=math.hypot(estimate.log_error, beyond)))
            wall_s[name] += time.monotonic() - begin
    return {name: _row(of, wall_s[name]) for name, of in found.items()}


def _row(found: Sequence[Estimate], wall_s: float) -> dict[str, Any]:
    logs = [each.log_speedup for each in found]
    held = sum(abs(each.log_speedup) <= 1.96 * each.log_error for each in found)
    return {
        "us": float(np.median([each.candidate_us for each in found])),
        **percentiles(logs),
        "mean": 100 * float(np.mean(logs)),
        "times": len(found),
        "pairs": found[0].pairs,
        "interval_holds_1": held / len(found),
        "wall_ms": 1e3 * wall_s / len(found),
    }

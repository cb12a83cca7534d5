"""One verdict from several fresh processes: what they differ by enters the interval."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from evokernel.evaluate.timing import pool, verdict_of
from evokernel.evaluate.wire import Outcome
from evokernel.evaluation import Speedup, Stage, Status, Timing, combined_speedup

HOLDOUT_PREFIX = "holdout:"
"""Marks, between judge and engine, the timings of held-out workloads."""


def pool_finals(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the joint outcome of the processes that measured a winner; each must be OK.

    `timings` are those of the held-out workloads against their fastest baseline; `panel` has, for each baseline, the
    combined speed-up over held-out and search workloads; the metrics `search_speedup`, `search_speedup_low` and
    `search_speedup_high` are the same for the search workloads against their fastest baselines.
    """
    pairs = [(timing.workload, timing.baseline) for timing in outcomes[0].timings]
    pooled = [_pool_one([_find(outcome, pair) for outcome in outcomes]) for pair in pairs]
    held = tuple(timing for timing in pooled if timing.workload.startswith(HOLDOUT_PREFIX))
    search = tuple(timing for timing in pooled if not timing.workload.startswith(HOLDOUT_PREFIX))
    panel = {
        name: combined_speedup(tuple(timing for timing in pooled if timing.baseline == name))
        for name in dict.fromkeys(timing.baseline for timing in pooled)
    }
    searched = combined_speedup(fastest(search))
    metrics = {name: fmean(o.metrics[name] for o in outcomes) for name in outcomes[0].metrics}
    metrics |= {
        "search_speedup": searched.value,
        "search_speedup_low": searched.low,
        "search_speedup_high": searched.high,
    }
    timings = tuple(_renamed(timing) for timing in fastest(held))
    return Outcome(
        Status.OK,
        Stage.FINAL,
        feedback=_feedback(timings, searched),
        timings=timings,
        metrics=metrics,
        panel={name: (speedup.value, speedup.low, speedup.high) for name, speedup in panel.items()},
    )


def fastest(timings: Sequence[Timing]) -> tuple[Timing, ...]:
    """Return, for each workload, the timing against its fastest baseline."""
    best: dict[str, Timing] = {}
    for timing in timings:
        if timing.workload not in best or timing.baseline_us < best[timing.workload].baseline_us:
            best[timing.workload] = timing
    return tuple(best.values())


def _find(outcome: Outcome, pair: tuple[str, str]) -> Timing:
    return next(timing for timing in outcome.timings if (timing.workload, timing.baseline) == pair)


def _pool_one(timings: Sequence[Timing]) -> Timing:
    mean, error = pool([timing.log_speedup for timing in timings], [timing.log_error for timing in timings])
    first = timings[0]
    return Timing(
        workload=first.workload,
        baseline=first.baseline,
        weight=first.weight,
        candidate_us=fmean(timing.candidate_us for timing in timings),
        baseline_us=fmean(timing.baseline_us for timing in timings),
        log_speedup=mean,
        log_error=error,
        pairs=sum(timing.pairs for timing in timings),
        verdict=verdict_of(mean, error),
        floor_us=first.floor_us,
    )


def _renamed(timing: Timing) -> Timing:
    return replace(timing, workload=timing.workload.removeprefix(HOLDOUT_PREFIX))


def _feedback(timings: Sequence[Timing], searched: Speedup) -> str:
    held = combined_speedup(tuple(timings))
    return (
        f"measured anew in fresh processes: {held.value:.3f}x ({held.low:.3f} to {held.high:.3f}) on held-out "
        f"workloads, {searched.value:.3f}x ({searched.low:.3f} to {searched.high:.3f}) on the search workloads"
    )

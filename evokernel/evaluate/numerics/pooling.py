"""One verdict from several fresh processes: differences between them widen the interval."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from evokernel.evaluate.numerics.statistics import pool, verdict_of
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import NONDETERMINISTIC, Mode, Stage, Status
from evokernel.records.timing import Speedup, Timing, combined_speedup

HOLDOUT_PREFIX = "holdout:"
"""Marks, between judge and engine, the timings of held-out workloads."""


def pool_finals(outcomes: Sequence[PhaseVerdict]) -> PhaseVerdict:
    """Return the joint verdict of the processes that measured a winner; each must be OK.

    `timings` are those of the search workloads against their fastest baseline, and `panel` the combined speed-up over
    each baseline on them. The metrics `holdout_speedup`, `holdout_speedup_low` and `holdout_speedup_high` are the same
    for the held-out workloads against their fastest baselines. Each process draws its own hidden shapes, so one of them
    may have met one that cannot be recorded: `mode` is then the one that proves less.
    """
    pairs = [(timing.workload, timing.baseline) for timing in outcomes[0].timings]
    pooled = [_pool_one([_find(outcome, pair) for outcome in outcomes]) for pair in pairs]
    held = tuple(_renamed(timing) for timing in pooled if timing.workload.startswith(HOLDOUT_PREFIX))
    search = tuple(timing for timing in pooled if not timing.workload.startswith(HOLDOUT_PREFIX))
    panel = {
        name: combined_speedup(tuple(timing for timing in search if timing.baseline == name))
        for name in dict.fromkeys(timing.baseline for timing in search)
    }
    elsewhere = combined_speedup(fastest(held))
    metrics = {name: fmean(o.metrics[name] for o in outcomes) for name in outcomes[0].metrics}
    metrics |= {
        **{
            name: max(outcome.metrics.get(name, 0.0) for outcome in outcomes)
            for name in ("sanitized", NONDETERMINISTIC)
        },
        "holdout_speedup": elsewhere.value,
        "holdout_speedup_low": elsewhere.low,
        "holdout_speedup_high": elsewhere.high,
    }
    return PhaseVerdict(
        Status.OK,
        Stage.FINAL,
        feedback=_feedback(search, held),
        timings=fastest(search),
        metrics=metrics,
        panel={name: (speedup.value, speedup.low, speedup.high) for name, speedup in panel.items()},
        mode=Mode.WORKER if Mode.WORKER in {outcome.mode for outcome in outcomes} else outcomes[0].mode,
        artifact=outcomes[0].artifact,
        remarks="\n".join(dict.fromkeys(outcome.remarks for outcome in outcomes if outcome.remarks)),
    )


def further_dtype(dtype: str, outcome: PhaseVerdict) -> PhaseVerdict:
    """Return what is reported of a winner at a further dtype: a remark, and the metric `DTYPE_speedup`, 0 if wrong.

    The speed-up is that over the fastest baseline of each search workload.
    """
    if outcome.status is not Status.OK:
        text = f"{dtype}: not right ({outcome.status}, at the stage {outcome.stage})"
        return PhaseVerdict(None, Stage.FINAL, metrics={f"{dtype}_speedup": 0.0}, remarks=text)
    search = tuple(timing for timing in outcome.timings if not timing.workload.startswith(HOLDOUT_PREFIX))
    speedup = combined_speedup(fastest(search))
    metrics = {f"{dtype}_speedup": speedup.value}
    return PhaseVerdict(None, Stage.FINAL, metrics=metrics, remarks=f"{dtype}: right, {_span(speedup)}")


def fastest(timings: Sequence[Timing]) -> tuple[Timing, ...]:
    """Return, for each workload, the timing against its fastest baseline."""
    best: dict[str, Timing] = {}
    for timing in timings:
        if timing.workload not in best or timing.baseline_us < best[timing.workload].baseline_us:
            best[timing.workload] = timing
    return tuple(best.values())


def _find(outcome: PhaseVerdict, pair: tuple[str, str]) -> Timing:
    return next(timing for timing in outcome.timings if (timing.workload, timing.baseline) == pair)


def _pool_one(timings: Sequence[Timing]) -> Timing:
    mean, error = pool([timing.log_speedup for timing in timings], [timing.log_error for timing in timings])
    first = timings[0]
    return replace(
        first,
        candidate_us=fmean(timing.candidate_us for timing in timings),
        baseline_us=fmean(timing.baseline_us for timing in timings),
        log_speedup=mean,
        log_error=error,
        pairs=sum(timing.pairs for timing in timings),
        verdict=verdict_of(mean, error),
    )


def _renamed(timing: Timing) -> Timing:
    return replace(timing, workload=timing.workload.removeprefix(HOLDOUT_PREFIX))


def _feedback(search: tuple[Timing, ...], held: tuple[Timing, ...]) -> str:
    """Return its speed against every baseline on every workload, the fastest baseline of each first."""
    lines = ["measured anew in fresh processes"]
    for title, timings in (("search workloads", search), ("held-out workloads", held)):
        lines.append(f"{title}, over the fastest baseline: {_span(combined_speedup(fastest(timings)))}")
        for workload in dict.fromkeys(timing.workload for timing in timings):
            panel = sorted((t for t in timings if t.workload == workload), key=lambda timing: timing.baseline_us)
            lines.append(
                f"  {workload}: " + ", ".join(f"{_span(timing.speedup)} {timing.baseline}" for timing in panel)
            )
    return "\n".join(lines)


def _span(speedup: Speedup) -> str:
    return f"{speedup.value:.3f}x ({speedup.low:.3f} to {speedup.high:.3f})"

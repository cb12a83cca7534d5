"""Timing of a candidate on all workloads of a bench, and its verdict in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from evokernel.errors import WorkerError
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession
from evokernel.evaluate.bench.feedback import NEUTRAL, failure, out_of_bounds
from evokernel.evaluate.bench.paired_clock import PairedClock, Rejected, confirmed
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.device.cpu_roofline import is_impossible
from evokernel.evaluate.judge.checks import touch_fences
from evokernel.evaluate.numerics.pooling import HOLDOUT_PREFIX
from evokernel.evaluate.numerics.statistics import Estimate, StoppingRule, measure
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.wire import HELD_OUT, PhaseVerdict
from evokernel.records.evaluation import Mode, Stage, Status
from evokernel.records.timing import Speedup, Timing, combined_speedup


@dataclass(frozen=True, slots=True)
class Request:
    """A request to time a candidate."""

    stage: Stage
    """The stage of the verdict."""
    plan: StoppingRule
    """When to stop, for each workload."""
    confirm_s: float
    """Clock time of a second measurement of an impossible speed."""
    incumbent: Mapping[str, float]
    """Speed-ups by workload; timing may stop early clearly below one."""


def time_candidate(session: CandidateSession, request: Request) -> PhaseVerdict:
    """Return the timings of a candidate that passed the checks, or a verdict against it."""
    session.bench.begin_timing()
    timings: list[Timing] = []
    early = False
    for bound in session.bench.timed:
        fresh = FreshInputs(bound.task, bound.workload, session.bench.rng, device=bound.device)
        for baseline in session.bench.panel if session.bench.final else (bound.anchor,):
            try:
                estimate, impossible = _measure(session, bound, fresh, request, baseline=baseline)
            except Rejected as rejected:
                return _held_out(bound, rejected.outcome)
            except WorkerError as error:
                where, hidden = f"in timed calls on {bound.label}", session.mode is Mode.WORKER
                return _held_out(bound, failure(error, request.stage, where, hidden=hidden))
            if impossible:
                text = f"on {bound.label}: faster than this device can move the data or do the arithmetic; {NEUTRAL}"
                return _held_out(bound, PhaseVerdict(Status.IMPOSSIBLE_SPEED, request.stage, text))
            early = early or estimate.stopped_early
            timings.append(_timing(session.bench, bound, baseline, estimate))
    for bound in session.bench.workloads:  # buffers that it did not run on may lie in its reach, too
        broken = out_of_bounds(bound, request.stage)
        if broken is not None:
            return _held_out(bound, broken)
    found = touch_fences(session, request.stage)  # a worker can count the calls of the checks, and wait
    if found is not None:
        return found
    kept = tuple(timings)
    feedback = "\n".join(filter(None, (session.remark(), _feedback(kept))))
    return PhaseVerdict(Status.OK, request.stage, feedback=feedback, timings=kept, stopped_early=early)


def _measure(
    session: CandidateSession, bound: BoundWorkload, fresh: FreshInputs, request: Request, *, baseline: str
) -> tuple[Estimate, bool]:
    """Return the estimate, and whether it is impossible even after a second, longer measurement."""
    clock = session.clock(bound, fresh, baseline=baseline, stage=request.stage)
    return confirmed(clock, partial(_attempt, session, bound, request, clock=clock))


def _attempt(
    session: CandidateSession, bound: BoundWorkload, request: Request, *, clock: PairedClock
) -> tuple[Estimate, bool]:
    plan = replace(request.plan, incumbent=request.incumbent.get(bound.workload.name, 0.0))
    estimate = _widened(measure(clock.block, plan), clock)
    if not is_impossible(estimate.candidate_us, session.bench.floor(bound).us):
        clock.finish(thoroughly=request.stage is not Stage.QUICK)
        return estimate, False
    session.bench.remeasure()
    session.bench.recount(bound)
    longer = replace(request.plan, budget_s=max(request.confirm_s, request.plan.budget_s))
    again = _widened(measure(clock.block, longer), clock)
    clock.finish(thoroughly=True)
    return again, is_impossible(again.candidate_us, session.bench.floor(bound).us)


def _widened(estimate: Estimate, clock: PairedClock) -> Estimate:
    """Add the systematic error, which no repetition shows."""
    return replace(estimate, log_error=math.hypot(estimate.log_error, clock.systematic_error()))


def _held_out(bound: BoundWorkload, outcome: PhaseVerdict) -> PhaseVerdict:
    if bound.kind is WorkloadPurpose.HOLDOUT and outcome.status is not Status.IMPOSSIBLE_SPEED:
        return PhaseVerdict(Status.HOLDOUT_FAILED, outcome.stage, HELD_OUT)
    return outcome


def _timing(bench: Bench, bound: BoundWorkload, baseline: str, estimate: Estimate) -> Timing:
    floor = bench.floor(bound)
    return Timing(
        workload=(HOLDOUT_PREFIX if bound.kind is WorkloadPurpose.HOLDOUT else "") + bound.workload.name,
        baseline=baseline,
        weight=bound.workload.weight,
        candidate_us=estimate.candidate_us,
        baseline_us=estimate.baseline_us,
        log_speedup=estimate.log_speedup,
        log_error=estimate.log_error,
        pairs=estimate.pairs,
        verdict=estimate.verdict,
        floor_us=floor.us,
        limit=floor.limit,
    )


def _feedback(timings: tuple[Timing, ...]) -> str:
    lines = [_line(timing) for timing in timings]
    whole = combined_speedup(timings)
    lines.append(f"all: {_span(whole)}")
    return "\n".join(lines[:60])


def _line(timing: Timing) -> str:
    share = f", {timing.floor_share:.0%} of the device's limit" if timing.floor_share else ""
    bound = f", {timing.limit.bound}" if timing.limit else ""
    return (
        f"{timing.workload}: {timing.candidate_us:.4g} us against {timing.baseline_us:.4g} us of {timing.baseline}, "
        f"{_span(timing.speedup)}{share}{bound}"
    )


def _span(speedup: Speedup) -> str:
    return f"{speedup.value:.3f}x ({speedup.low:.3f} to {speedup.high:.3f})"

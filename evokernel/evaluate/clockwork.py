"""Timed batches of candidate and baseline: fresh inputs at the last moment, every timed output verified."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench import BATCH_S
from evokernel.evaluate.correctness import judge_timed
from evokernel.evaluate.device import floor_us, is_impossible
from evokernel.evaluate.final import HOLDOUT_PREFIX
from evokernel.evaluate.ground import Ground, Kind
from evokernel.evaluate.inputs import Array, FreshInputs, native_answer
from evokernel.evaluate.runner import RunnerProcess
from evokernel.evaluate.stages import HELD_OUT, NEUTRAL, Session, failure, out_of_bounds
from evokernel.evaluate.timing import Block, Estimate, Plan, measure
from evokernel.evaluate.wire import Outcome
from evokernel.evaluation import Speedup, Stage, Status, Timing, combined_speedup
from evokernel.task import DTYPES

_SLOW_NS = 20e6
"""A call this long needs no warm-up: what it warms is gone before it ends."""


class Rejected(Exception):
    """A timed call was wrong; carries the verdict."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.feedback)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Request:
    """What to time and how long: `plan` per workload, `confirm_s` of clock time to doubt an impossible speed.

    `incumbent` is the speed-up by workload below half of which it may stop early.
    """

    stage: Stage
    plan: Plan
    confirm_s: float
    incumbent: Mapping[str, float]


class Clock:
    """Times one candidate against one baseline on one workload, block by block.

    Both run on the same buffers and the same contents. The candidate is stopped, after its warm-up, before those
    contents are there; what the baseline leaves of them is wiped before the candidate wakes.
    """

    def __init__(self, session: Session, ground: Ground, fresh: FreshInputs, stage: Stage) -> None:
        self._session = session
        self._bench = session.bench
        self._ground = ground
        self._fresh = fresh
        self._stage = stage
        self._contents: list[dict[str, Array]] = [
            {name: np.empty_like(view) for name, view in ground.views(0).items()} for _ in range(ground.calls)
        ]
        self._bench.attach_baseline(ground)
        session.attach(ground)
        self._once_ns = max(session.call_s[ground] * 1e9 - self._bench.wake_ns, 1.0)

    def block(self) -> Block:
        """Time baseline, candidate, candidate, baseline. Raises `Rejected`, `WorkerError`."""
        calls, warm = self._pace()
        self._renew()
        first_baseline = self._baseline()
        self._ground.wipe(self._ground.calls)
        first_candidate = self._candidate(calls, warm=warm)
        self._renew()
        second_candidate = self._candidate(calls, warm=warm)
        second_baseline = self._baseline()
        broken = out_of_bounds(self._ground, self._stage)
        if broken is not None:
            raise Rejected(broken)
        baseline, candidate = (first_baseline, second_baseline), (first_candidate, second_candidate)
        clock_ns = sum(baseline) * self._ground.calls + sum(candidate) * calls
        return Block(baseline, candidate, clock_ns / 1e9)

    def _pace(self) -> tuple[int, bool]:
        """Return how many calls a batch of the candidate has, and whether it is warmed up first."""
        calls = self._ground.calls
        if self._once_ns * calls > 4e9 * BATCH_S:  # far slower than the baseline: fewer calls fill a batch
            calls = max(1, min(calls, round(1e9 * BATCH_S / self._once_ns)))
        return calls, self._once_ns < _SLOW_NS

    def _renew(self) -> None:
        for content in self._contents:
            self._fresh.fill(content)

    def _baseline(self) -> float:
        try:
            return self._run(self._bench.baseline, calls=self._ground.calls, warm=True)
        except WorkerError as error:
            raise HarnessError(f"the baseline process failed: {error}") from error

    def _candidate(self, calls: int, *, warm: bool) -> float:
        time_ns = self._run(self._session.worker, calls=calls, warm=warm)
        self._once_ns = min(self._once_ns, time_ns)  # the first estimate may come from a busy moment
        self._verify(calls)
        return time_ns

    def _run(self, runner: RunnerProcess, *, calls: int, warm: bool) -> float:
        """Return the time of one call in ns."""
        ground, limit = self._ground, self._bench.settings.timeout_s
        warm_set = ground.calls if warm else None
        runner.prepare(ground.name, first_set=0, calls=calls, warm_set=warm_set, timeout_s=limit)
        for index in range(calls):
            ground.put(index, self._contents[index])
        elapsed = runner.go(timeout_s=limit)
        return max(elapsed - self._bench.wake_ns, elapsed / 2) / calls

    def _verify(self, calls: int) -> None:
        ground = self._ground
        expected = ground.case(ground.workload.distribution).expected
        for index in range(calls):
            native = native_answer(ground.task, ground.workload, self._contents[index])
            finding = judge_timed(
                expected, ground.outputs(index), native=native, poison=ground.poison_word, hidden=ground.hidden
            )
            if finding is not None:
                # It passed every check on single calls; how it was found out is not told.
                raise Rejected(Outcome(Status.CHEAT_SUSPECT, self._stage, f"on {ground.label}: {NEUTRAL}"))


def time_candidate(session: Session, request: Request) -> Outcome:
    """Return the timings of a candidate that is right, or why it is not after all."""
    timings: list[Timing] = []
    early = False
    for ground in session.bench.timed:
        fresh = FreshInputs(ground.task, ground.workload, session.bench.rng)
        for baseline in session.bench.panel if session.bench.final else (ground.anchor,):
            session.bench.baseline.select(baseline)
            try:
                estimate, impossible = _measure(session, ground, fresh, request)
            except Rejected as rejected:
                return _held_out(ground, rejected.outcome)
            except WorkerError as error:
                return _held_out(ground, failure(error, request.stage, f"in timed calls on {ground.label}"))
            if impossible:
                text = f"on {ground.label}: faster than this device can move the data or do the arithmetic; {NEUTRAL}"
                return _held_out(ground, Outcome(Status.IMPOSSIBLE_SPEED, request.stage, text))
            early = early or estimate.stopped_early
            timings.append(_timing(session, ground, baseline, estimate))
    kept = tuple(timings)
    return Outcome(Status.OK, request.stage, feedback=_feedback(kept), timings=kept, stopped_early=early)


def _measure(session: Session, ground: Ground, fresh: FreshInputs, request: Request) -> tuple[Estimate, bool]:
    """Return the estimate, and whether it is impossible even after a second, longer measurement."""
    clock = Clock(session, ground, fresh, request.stage)
    plan = replace(request.plan, incumbent=request.incumbent.get(ground.workload.name, 0.0))
    estimate = measure(clock.block, plan)
    if not is_impossible(estimate.candidate_us, _floor(session, ground)):
        return estimate, False
    session.bench.look_again()
    longer = replace(request.plan, budget_s=max(request.confirm_s, request.plan.budget_s))
    again = measure(clock.block, longer)
    return again, is_impossible(again.candidate_us, _floor(session, ground))


def _held_out(ground: Ground, outcome: Outcome) -> Outcome:
    if ground.kind is Kind.HOLDOUT and outcome.status is not Status.IMPOSSIBLE_SPEED:
        return Outcome(Status.HOLDOUT_FAILED, outcome.stage, HELD_OUT)
    return outcome


def _timing(session: Session, ground: Ground, baseline: str, estimate: Estimate) -> Timing:
    return Timing(
        workload=(HOLDOUT_PREFIX if ground.kind is Kind.HOLDOUT else "") + ground.workload.name,
        baseline=baseline,
        weight=ground.workload.weight,
        candidate_us=estimate.candidate_us,
        baseline_us=estimate.baseline_us,
        log_speedup=estimate.log_speedup,
        log_error=estimate.log_error,
        pairs=estimate.pairs,
        verdict=estimate.verdict,
        floor_us=_floor(session, ground),
    )


def _floor(session: Session, ground: Ground) -> float:
    task, workload = ground.task, ground.workload
    # The sheet's peak is that of fp32; arithmetic on 16-bit numbers may be faster.
    narrow = any(DTYPES[tensor.dtype] < 4 for tensor in task.signature.tensors)
    flops = 0 if narrow else task.flops_at(workload)
    return floor_us(flops, task.bytes_at(workload), session.bench.sheet)


def _feedback(timings: tuple[Timing, ...]) -> str:
    lines = [_line(timing) for timing in timings]
    whole = combined_speedup(timings)
    lines.append(f"all: {_span(whole)}")
    return "\n".join(lines[:60])


def _line(timing: Timing) -> str:
    share = f", {timing.floor_us / timing.candidate_us:.0%} of the device's limit" if timing.floor_us else ""
    return (
        f"{timing.workload}: {timing.candidate_us:.4g} us against {timing.baseline_us:.4g} us of {timing.baseline}, "
        f"{_span(timing.speedup)}{share}"
    )


def _span(speedup: Speedup) -> str:
    return f"{speedup.value:.3f}x ({speedup.low:.3f} to {speedup.high:.3f})"

"""Timed batches of candidate and baseline: fresh inputs at the last moment, every timed output verified."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.arrays import Array
from evokernel.evaluate.correctness import differing_calls, judge_timed
from evokernel.evaluate.device import is_impossible
from evokernel.evaluate.final import HOLDOUT_PREFIX
from evokernel.evaluate.fresh import FreshInputs, Window
from evokernel.evaluate.ground import Ground, Kind
from evokernel.evaluate.references import native_answer
from evokernel.evaluate.runner import RunnerProcess
from evokernel.evaluate.stages import NEUTRAL, Session, failure, out_of_bounds
from evokernel.evaluate.timing import Block, Estimate, Plan, measure
from evokernel.evaluate.wire import HELD_OUT, Outcome
from evokernel.evaluation import Speedup, Stage, Status, Timing, combined_speedup
from evokernel.task import Role

_SLOW_NS = 20e6
"""A call this long needs no warm-up: what it warms is gone before it ends."""
_RENEWED = 8
"""Between two runners, one in this many inputs is written anew where a runner might have changed them."""


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

    Both run on the same buffers and the same contents. Both are warmed up and stopped before those contents are there,
    and each wakes for its batch alone. Whoever runs first has its outputs copied to private memory, where they wait
    for those of the other.
    """

    def __init__(self, session: Session, ground: Ground, fresh: FreshInputs, stage: Stage) -> None:
        self._session = session
        self._bench = session.bench
        self._ground = ground
        self._fresh = fresh
        self._stage = stage
        self._kept = [torch.empty(out.shape, dtype=out.dtype, device=out.device) for out in self._wrote(ground.calls)]
        self._bench.attach_baseline(ground)
        session.attach(ground)
        self._once_ns = max(session.call_s[ground] * 1e9 - self._bench.wake_ns, 1.0)
        self._neighbours = self._count_neighbours()

    def block(self) -> Block:
        """Time baseline, candidate, candidate, baseline. Raises `Rejected`, `WorkerError`."""
        calls, warm = self._pace()
        halves = [self._half(calls, warm=warm, candidate_first=last) for last in (False, True)]
        broken = out_of_bounds(self._ground, self._stage)
        if broken is not None:
            raise Rejected(broken)
        baseline, candidate = ((halves[0][side], halves[1][side]) for side in (0, 1))
        clock_ns = sum(baseline) * self._ground.calls + sum(candidate) * calls
        return Block(baseline, candidate, clock_ns / 1e9)

    def _half(self, calls: int, *, warm: bool, candidate_first: bool) -> tuple[float, float]:
        """Return the times of one call of baseline and candidate, in ns, on the same new contents."""
        warm_set, limit = self._ground.calls, self._bench.settings.timeout_s
        self._session.worker.prepare(
            self._ground.name, first_set=0, calls=calls, warm_set=warm_set if warm else None, timeout_s=limit
        )
        self._look()
        with _our_own_fault():
            self._bench.baseline.prepare(
                self._ground.name, first_set=0, calls=self._ground.calls, warm_set=warm_set, timeout_s=limit
            )
        windows = self._fresh.draw_windows(self._ground.calls)
        self._fill(windows)
        if candidate_first:
            candidate = self._candidate(calls)
            actual = self._keep(calls)
            self._renew(windows)
            baseline = self._baseline()
            self._verify(windows, actual, self._wrote(calls))
        else:
            baseline = self._baseline()
            due = self._keep(calls)
            self._renew(windows)
            candidate = self._candidate(calls)
            self._verify(windows, self._wrote(calls), due)
        return baseline, candidate

    def _pace(self) -> tuple[int, bool]:
        """Return how many calls a batch of the candidate has, and whether it is warmed up first."""
        calls = self._ground.calls
        batch_ns = 1e9 * self._bench.batch_s
        if self._once_ns * calls > 4 * batch_ns:  # far slower than the baseline: fewer calls fill a batch
            calls = max(1, min(calls, round(batch_ns / self._once_ns)))
        return calls, self._once_ns < _SLOW_NS

    def _fill(self, windows: Sequence[Window]) -> None:
        for index, window in enumerate(windows):
            self._fresh.fill(self._ground.views(index), window)
        self._ground.poison_all(len(windows))

    def _renew(self, windows: Sequence[Window]) -> None:
        """Make the buffers what they were before the first runner: inputs that it cannot have written are so still."""
        if any(tensor.role is Role.INOUT for tensor in self._ground.task.signature.inputs):
            self._fill(windows)
            return
        self._ground.poison_all(len(windows))
        if self._ground.device != "cpu":
            # There, inputs are read-only for kernels but not for hostile host code. Whoever had changed them for the
            # baseline, too, would be found right: some are written anew, and nobody can know which.
            some = -(-len(windows) // _RENEWED)
            for call in self._bench.rng.choice(len(windows), some, replace=False).tolist():
                self._fresh.fill(self._ground.views(call), windows[call])

    def _baseline(self) -> float:
        with _our_own_fault():
            return self._go(self._bench.baseline, self._ground.calls)

    def _candidate(self, calls: int) -> float:
        time_ns = self._go(self._session.worker, calls)
        self._look()
        self._once_ns = min(self._once_ns, time_ns)  # the first estimate may come from a busy moment
        return time_ns

    def _look(self) -> None:
        """Make sure that the stopped candidate has nothing at work on the device: stopping a process stops no kernel.

        What it left there could read contents before their time, or slow the baseline down.

        Raises:
            Rejected: it had.
            HarnessError: somebody has, and it is not the candidate.
        """
        if not self._bench.left_running():
            return
        self._session.worker.close()
        if self._bench.quiet() or self._count_neighbours() > self._neighbours:
            raise HarnessError("another process has begun to compute on the device; nothing is timed beside it")
        text = f"on {self._ground.label}: kernels were still running when the device should have been done"
        raise Rejected(Outcome(Status.CHEAT_SUSPECT, self._stage, text))

    def _count_neighbours(self) -> float:
        return self._bench.conditions().get("other_processes", 0.0)

    def _go(self, runner: RunnerProcess, calls: int) -> float:
        """Return the time of one call in ns."""
        elapsed = runner.go(timeout_s=self._bench.settings.timeout_s)
        return max(elapsed - self._bench.wake_ns, elapsed / 2) / calls

    def _wrote(self, calls: int) -> Sequence[Array]:
        """Return what lies in the outputs of the first calls; the runners are stopped."""
        return self._ground.all_outputs(calls)

    def _keep(self, calls: int) -> Sequence[Array]:
        """Return a private copy of what lies in the outputs of the first calls; good until the next one."""
        return [kept[:calls].copy_(out) for kept, out in zip(self._kept, self._wrote(calls), strict=True)]

    def _verify(self, windows: Sequence[Window], actual: Sequence[Array], due: Sequence[Array]) -> None:
        """Compare the candidate's outputs with the baseline's. Where they differ, the reference decides."""
        ground = self._ground
        expected = ground.case(ground.workload.distribution).expected
        share, rng = self._bench.timed_share, self._bench.rng
        for call in differing_calls(expected, actual, due, share=share, rng=rng):
            inputs = {name: torch.empty_like(view) for name, view in ground.views(call).items()}
            self._fresh.fill(inputs, windows[call])
            native = native_answer(ground.task, ground.workload, inputs)
            outputs = [array[call] for array in actual]
            finding = judge_timed(expected, outputs, native=native, poison=ground.poison_word, hidden=ground.hidden)
            if finding is not None:
                # It passed every check on single calls; how it was found out is not told.
                raise Rejected(Outcome(Status.CHEAT_SUSPECT, self._stage, f"on {ground.label}: {NEUTRAL}"))


@contextmanager
def _our_own_fault() -> Iterator[None]:
    """Turn a failure of the baseline process into what it is. Raises `HarnessError`."""
    try:
        yield
    except WorkerError as error:
        raise HarnessError(f"the baseline process failed: {error}") from error


def time_candidate(session: Session, request: Request) -> Outcome:
    """Return the timings of a candidate that is right, or why it is not after all."""
    timings: list[Timing] = []
    early = False
    for ground in session.bench.timed:
        fresh = FreshInputs(ground.task, ground.workload, session.bench.rng, device=ground.device)
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
    feedback = "\n".join(filter(None, (_feedback(kept), session.worker.remark())))
    return Outcome(Status.OK, request.stage, feedback=feedback, timings=kept, stopped_early=early)


def _measure(session: Session, ground: Ground, fresh: FreshInputs, request: Request) -> tuple[Estimate, bool]:
    """Return the estimate, and whether it is impossible even after a second, longer measurement."""
    clock = Clock(session, ground, fresh, request.stage)
    plan = replace(request.plan, incumbent=request.incumbent.get(ground.workload.name, 0.0))
    estimate = measure(clock.block, plan)
    if not is_impossible(estimate.candidate_us, session.bench.floor_us(ground.workload)):
        return estimate, False
    session.bench.look_again()
    longer = replace(request.plan, budget_s=max(request.confirm_s, request.plan.budget_s))
    again = measure(clock.block, longer)
    return again, is_impossible(again.candidate_us, session.bench.floor_us(ground.workload))


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
        floor_us=session.bench.floor_us(ground.workload),
    )


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

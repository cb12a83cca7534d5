"""Clock of a worker beside the baseline process: both wake for their batches alone, and the judge's clock decides."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench.baseline_timing import without_waking
from evokernel.evaluate.bench.baseline_watch import BatchUsage
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.paired_clock import OUTGROWN, CheckedCall, PairedClock
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.arrays import Array, bits
from evokernel.evaluate.numerics.correctness import alike_calls
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock
from evokernel.evaluate.numerics.timed_inputs import FreshInputs, Window
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.evaluate.sandbox.timed_process import RunnerProcess
from evokernel.records.evaluation import Stage

_SLOW_NS = 20e6
"""A call this long needs no warm-up: it outlives the caches that a warm-up fills."""
_SLOWER_NS = 5e6
"""A check call may take this much longer than a timed one, beside the share in `PairedClock`."""
_DECOY_SHARE = 0.2
"""Share of blocks with a decoy batch, where one has room for all distributions; more where batches have few calls. The
first block always has one, and they stand at the end until each distribution has come.
"""
_DIFFERENCE = 0.002
"""Relative difference of one kernel's times in two processes on a processor. On two cores of a virtual AMD EPYC it is
0.1 to 0.3 %, and stays the same as long as both processes live.
"""
_PREPARED = 16
"""So much time of the judge's own processor uses up a budget as one of the clock does: a look-up takes microseconds in
tables that take milliseconds to fill.
"""
_RENEWED = 8
"""Between two runners, one in this many input sets is rewritten where a runner might have changed it."""


class WorkerClock(PairedClock):
    """Times a worker from waking it to its answer, see `RunnerProcess`.

    Both runners are warmed up and stopped before the contents are there, and each wakes for its batch alone.
    """

    def __init__(
        self,
        bench: Bench,
        worker: ForkedRunner,
        bound: BoundWorkload,
        fresh: FreshInputs,
        *,
        stage: Stage,
        checked: CheckedCall,
    ) -> None:
        super().__init__(bench, bound, fresh, stage=stage, checked=checked, usual=bench.workers.baselines.usual(bound))
        self._worker = worker
        self._kept = [torch.empty(out.shape, dtype=out.dtype, device=out.device) for out in self._wrote(bound.calls)]
        self._baselines = bench.workers.baselines
        self._baselines.attach(bound)
        self._wake_ns = self._baselines.wake_ns(bound)
        self._once_ns = max(checked.ns - self._wake_ns, 1.0)
        self._neighbours = self._count_neighbours()
        self._begun = False
        self._warm = fresh.draw_windows(1)[0] if bound.changes_inputs else {}
        """The content of calls that warm up."""

    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`.

        The first half comes after a longer pause than the second, and its first runner may pay for that. So that runner
        is drawn each time. A candidate that was slow before gets short batches; where it is fast in them, the block is
        measured again.
        """
        while True:
            calls, warm = self._pace()
            block = self._block(calls, warm=warm)
            if self._pace()[0] < OUTGROWN * calls:
                self._call_ns += block.candidate_ns
                return block
            self.forget()

    def _block(self, calls: int, *, warm: bool) -> CounterbalancedBlock:
        began, decoy, halves, decoy_ns = time.process_time(), self._draw_decoy(), dict[bool, tuple[float, float]](), 0.0
        beginning = bool(self._bench.rng.integers(2))
        for candidate_first in (beginning, not beginning):
            if candidate_first == decoy:  # a decoy has the order of the half that it precedes
                times = self._half(calls, warm=warm, candidate_first=candidate_first, decoy=True)
                decoy_ns = times[0] * self._bound.calls + times[1] * calls
            baseline_ns, candidate_ns = self._half(calls, warm=warm, candidate_first=candidate_first)
            if self._watch.pairs_up:
                baseline_ns, usage = self._alone(candidate_first=candidate_first)
                self._watch.add_alone(usage, candidate_first=candidate_first)
            halves[candidate_first] = baseline_ns, candidate_ns
        self._check_bounds()
        baseline, candidate = ((halves[False][side], halves[True][side]) for side in (0, 1))
        clock_ns = sum(baseline) * self._bound.calls + sum(candidate) * calls + decoy_ns
        worked_s = time.process_time() - began
        return CounterbalancedBlock(baseline, candidate, max(clock_ns / 1e9, worked_s / _PREPARED))

    def systematic_error(self) -> float:
        """Return the relative difference of one kernel between the two processes; 0 on a GPU, where it is not known."""
        return _DIFFERENCE if self._bound.device == "cpu" else super().systematic_error()

    def finish(self, *, thoroughly: bool) -> None:
        """Run more decoy batches, and look at the baseline's, whatever `thoroughly` says."""
        more = bool(self._others) and self._begun
        while more:
            calls, warm = self._pace()
            self._half(calls, warm=warm, candidate_first=bool(self._bench.rng.integers(2)), decoy=True)
            self._check_bounds()
            more = bool(self._not_met) and calls == self._bound.calls  # one that is far slower takes no short cut
        self._refuse_slow_checks(_SLOWER_NS)
        while self._watch.wants_pairs:
            calls, warm = self._pace()
            self._block(calls, warm=warm)
        self._refuse_disturbance()

    def _alone(self, *, candidate_first: bool) -> tuple[float, BatchUsage]:
        """Return what `_baseline` does, in a half in which the candidate does nothing."""
        self._prepare_baseline()
        windows = self._fresh.draw_windows(self._bound.calls)
        self._fill(windows)
        if candidate_first:
            self._keep(self._bound.calls)
            self._renew(windows)
        return self._baseline()

    def _draw_decoy(self) -> bool | None:
        """Return the half before which there is a decoy batch, or None."""
        rng, first, self._begun = self._bench.rng, not self._begun, True
        share = _DECOY_SHARE * max(1.0, len(self._others) / self._bound.calls)
        return bool(rng.integers(2)) if self._others and (first or rng.random() < share) else None

    def _half(self, calls: int, *, warm: bool, candidate_first: bool, decoy: bool = False) -> tuple[float, float]:
        """Return the times of one call of baseline and candidate, in ns, on the same new contents.

        With `decoy` some contents are those of checks, and the times do not count. There outputs of several
        threads cannot be written once the batch is done; elsewhere that would take more time than a late helper gains.
        """
        try:
            return self._both(calls, warm=warm, candidate_first=candidate_first, decoy=decoy)
        finally:
            self._baselines.process.abandon()  # the baseline must not wait for its batch where the candidate dies first

    def _both(self, calls: int, *, warm: bool, candidate_first: bool, decoy: bool) -> tuple[float, float]:
        late = decoy and self._bound.device == "cpu" and not self._worker.one_thread
        self._prepare(calls, warm=warm, candidate_first=candidate_first, shut=late)
        windows = self._fresh.draw_windows(self._bound.calls)
        # a helper that is late may know contents of checks, and be in time beside them
        odd = decoy and not (late and self._bench.rng.integers(2))
        decoys = self._make_decoys(windows, among=range(calls), most=len(self._others)) if odd else {}
        self._fill(windows)
        if candidate_first:
            candidate = self._candidate(calls)
            actual = self._keep(calls)
            self._renew(windows)
            baseline, usage = self._baseline()
            due = self._wrote(calls)
        else:
            baseline, usage = self._baseline()
            due = self._keep(calls)
            self._renew(windows)
            candidate = self._candidate(calls)
            actual = self._wrote(calls)
        alike = self._alike(actual, due, among=range(calls)).tolist()
        self._decide((each for each, right in enumerate(alike) if not right and each not in decoys), windows, actual)
        if not decoy:
            self._once_ns = min(self._once_ns, candidate)  # the first estimate may come from a busy moment
            self._watch.add(usage, candidate_first=candidate_first)
        for call, distribution in decoys.items():
            self._decide_decoy(windows[call], [array[call] for array in actual], distribution=distribution)
        self._audit_batch(range(calls), decoys, windows, actual)
        return baseline, candidate

    def _prepare(self, calls: int, *, warm: bool, candidate_first: bool, shut: bool) -> None:
        """Warm both up and stop them, the first runner last: otherwise one of the two always had the colder caches."""
        bound, limit = self._bound, self._bench.settings.timeout_s

        def prepare_candidate() -> None:
            warm_set = bound.calls if warm else None
            self._fill_warm()
            self._worker.prepare(bound.name, first_set=0, calls=calls, warm_set=warm_set, timeout_s=limit, shut=shut)
            self._check_idle()

        both = (self._prepare_baseline, prepare_candidate)
        for prepare in both if candidate_first else reversed(both):
            prepare()

    def _prepare_baseline(self) -> None:
        bound, limit = self._bound, self._bench.settings.timeout_s
        self._fill_warm()
        with _baseline_faults():
            self._baselines.process.prepare(
                bound.name, first_set=0, calls=bound.calls, warm_set=bound.calls, timeout_s=limit
            )

    def _fill_warm(self) -> None:
        """Renew what the last call that warmed up has changed in place: called again and again, it may grow too large.

        It may be an index that each call moves on.
        """
        if self._bound.changes_inputs:
            self._fresh.fill(self._bound.views(self._bound.calls), self._warm)

    def _wrote(self, calls: int) -> Sequence[Array]:
        """Return views of the outputs of the first calls; both runners must be stopped."""
        return self._bound.all_outputs(calls)

    def _keep(self, calls: int) -> Sequence[Array]:
        """Return a private copy of the outputs of the first calls, valid until the next copy."""
        for kept, out in zip(self._kept, self._wrote(calls), strict=True):
            bits(kept[:calls]).copy_(bits(out))  # torch would make truth values of the bytes of bool
        return [kept[:calls] for kept in self._kept]

    def _alike(self, actual: Sequence[Array], due: Sequence[Array], *, among: Sequence[int]) -> Array:
        """Compare the candidate's outputs with the baseline's: one truth value for each call, on the device."""
        share, rng = self._bench.device.timed_share, self._bench.rng
        return alike_calls(self._expected, actual, due, share=share, rng=rng, among=among)

    def _pace(self) -> tuple[int, bool]:
        """Return the number of calls in a batch of the candidate, and whether it is warmed up first."""
        calls = self._bound.calls
        batch_ns = 1e9 * self._baselines.batch_s
        if self._once_ns * calls > 4 * batch_ns:  # far slower than the baseline: fewer calls fill a batch
            calls = max(1, min(calls, round(batch_ns / self._once_ns)))
        return calls, self._once_ns < _SLOW_NS

    def _renew(self, windows: Sequence[Window]) -> None:
        """Restore the buffers as they were before the first runner; inputs it could not write are left alone."""
        if self._bound.changes_inputs:
            self._fill(windows)
            return
        self._bound.poison_all(len(windows))
        if self._bound.device != "cpu":
            # On a GPU, hostile host code can still write inputs. Changed for the baseline too, they would make wrong
            # outputs look right. So some are rewritten, and a candidate cannot know which.
            some = -(-len(windows) // _RENEWED)
            for call in self._bench.rng.choice(len(windows), some, replace=False).tolist():
                self._fresh.fill(self._bound.views(call), windows[call])

    def _baseline(self) -> tuple[float, BatchUsage]:
        """Return the time of one call in ns, and the usage of the batch."""
        process, calls = self._baselines.process, self._bound.calls
        with _baseline_faults():
            call_ns = self._go(process, calls)
        return call_ns, BatchUsage(call_ns * calls, process.faults)

    def _candidate(self, calls: int) -> float:
        time_ns = self._go(self._worker, calls)
        self._check_idle()
        return time_ns

    def _check_idle(self) -> None:
        """Check that the stopped candidate has no work on the device: stopping a process stops no kernel.

        Such work could read contents before their time, or slow the baseline down.

        Raises:
            Rejected: the candidate has work there.
            HarnessError: another program has.
        """
        if not self._bench.device.left_running():
            return
        self._worker.close()
        if self._bench.device.quiet() or self._count_neighbours() > self._neighbours:
            raise HarnessError("another process has begun to compute on the device; nothing is timed beside it")
        raise self._suspect("kernels were still running when the device should have been done")

    def _count_neighbours(self) -> float:
        return self._bench.device.conditions().get("other_processes", 0.0)

    def _go(self, runner: RunnerProcess, calls: int) -> float:
        """Return the time of one call in ns."""
        elapsed = runner.go(timeout_s=self._bench.settings.timeout_s)
        return without_waking(elapsed, wake_ns=self._wake_ns) / calls


@contextmanager
def _baseline_faults() -> Iterator[None]:
    """Turn a failure of the baseline process into a `HarnessError`."""
    try:
        yield
    except WorkerError as error:
        raise HarnessError(f"the baseline process failed: {error}") from error

"""Times recorded kernels against baselines, by the device's events, in alternating batches over many buffers.

Defences against hostile kernels:

* Each batch runs on new contents and visits the buffer copies in an order drawn for it alone.
* Some copies are left out; they look like the others and must stay unchanged.
* What an earlier batch left on the device is overwritten or unmapped before each batch.
* Every output of every timed call is compared.
* In odd batches, which look like timed ones, some calls have contents of checks.
* A batch with a fraction of the calls must take that fraction of the time.
* Checks must not take far longer than timed calls, and batches are as long as their own times ask for.
* The judge's own clock around a batch must agree with the device's.
* The baseline must not be slower beside a candidate than without it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.artifact_mode.baselines import TimedCalls
from evokernel.evaluate.artifact_mode.output_comparison import OutputComparison
from evokernel.evaluate.artifact_mode.runner_pool import ArtifactRunner, Batch, BatchTimes
from evokernel.evaluate.bench.baseline_watch import BatchUsage
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.feedback import NEUTRAL
from evokernel.evaluate.bench.paired_clock import OUTGROWN, CheckedCall, Doubtful, PairedClock
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.arrays import synchronize
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock
from evokernel.evaluate.numerics.timed_inputs import FreshInputs, Window
from evokernel.records.evaluation import Stage

_WORD = 1 << 32
_SHORT = 4
"""A short batch has this part of the calls of a full one."""
_SHORT_BATCHES = 3
_FIXED_NS, _FIXED_SHARE = 1e4, 0.05
"""Allowed cost of a batch beside its calls: a fixed part, and a share of a full batch."""
_SLOW = 4.0
"""A candidate this many times slower than the baseline gets shorter batches."""
_SLOWER_NS = 1e6
"""A check call may take this much longer than a timed one, beside the share in `PairedClock`."""
_EMPTY_BATCHES, _EMPTY_HALVES, _EMPTY_TRIES = 5, 3, 20
"""Batches without a call: run alone, run after the usual work, and attempts until enough are uninterrupted."""
_ODD_SHARE, _ODD_CALLS = 0.05, 2
"""Share of blocks with an odd batch, and its calls with contents of checks; one more ends a measurement that counts."""
_DIFFERENCE_NS = 400.0
"""Difference of one kernel's batch between runner and judge. Five kernels on an H100 differed by 0.1 to 0.7 us in
batches of 0.4 to 0.9 ms; one that makes tensor descriptors differed by 1.3 us (benchmarks/precision)."""
_HIDDEN_SHARE, _HIDDEN_NS = 0.15, 1e5
"""Allowed excess of the judge's clock over that of an empty batch: a share of the batch, and a fixed part."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A candidate in a runner."""

    runner: ArtifactRunner
    """The process that holds its kernels."""
    shape: int
    """The number of its plan for the workload."""
    checked: CheckedCall
    """Its call in the checks."""


class ArtifactClock(PairedClock):
    """Times a candidate that a runner has loaded.

    `baselines` are batches of one baseline in several orders, and `usual_ns` is the time of its calls before there was
    any candidate.
    """

    def __init__(
        self,
        bench: Bench,
        bound: BoundWorkload,
        fresh: FreshInputs,
        *,
        stage: Stage,
        candidate: Loaded,
        baselines: Sequence[TimedCalls],
        usual_ns: float,
        comparison: OutputComparison,
    ) -> None:
        usual = BatchUsage(usual_ns * bound.calls)
        super().__init__(bench, bound, fresh, stage=stage, checked=candidate.checked, usual=usual)
        self._comparison = comparison
        self._runner, self._shape = candidate.runner, candidate.shape
        self._baselines = baselines
        self._calls = bound.calls
        self._own_calls = paced_calls(bound, candidate.checked.ns)
        """Calls in a batch of the candidate: fewer where it is far slower than the baseline."""
        self._known_idle_excess_ns = 0.0
        self._fired: dict[bool, list[BatchTimes]] = {False: [], True: []}
        """The candidate's batches, by whether it was first."""
        self._windows: list[Window] = []

    def block(self) -> CounterbalancedBlock:
        """Time baseline, candidate, candidate, baseline; its `clock_s` is the time of all four.

        A candidate that was slow before gets short batches; where it is fast in them, the block is measured again.
        """
        while True:
            block = self._block()
            calls = paced_calls(self._bound, min(block.candidate_ns))
            if calls < OUTGROWN * self._own_calls:
                self._call_ns += block.candidate_ns
                return block
            self._own_calls = calls
            self.forget()

    def _block(self) -> CounterbalancedBlock:
        odd, halves, clock_s = self._draw_odd(), list[tuple[float, float]](), 0.0
        for candidate_first in (False, True):
            if candidate_first == odd:
                self._half(self._own_calls, candidate_first=candidate_first, odd=True)
            begin = time.monotonic()
            baseline_ns, candidate_ns = self._timed_half(candidate_first=candidate_first)
            clock_s += time.monotonic() - begin
            if self._watch.pairs_up:
                alone = self._alone(candidate_first=candidate_first)
                self._watch.add_alone(alone, candidate_first=candidate_first)
                baseline_ns = alone.batch_ns / self._calls
            halves.append((baseline_ns, candidate_ns))
        baseline, candidate = ((halves[0][side], halves[1][side]) for side in (0, 1))
        return CounterbalancedBlock(baseline, candidate, clock_s)

    def finish(self, *, thoroughly: bool) -> None:
        """Check the bounds of the buffers, the speed of short batches, and the judge's clock.

        Raises:
            Rejected: one of these checks failed, or a call of one more odd batch.
            Doubtful: it looks as if time was hidden.
            MeasureAgain: the baseline may have paid for the candidate.
            HarnessError: other programs on the device, or on the cores of judge and runner, leave that open.
        """
        if self._others and thoroughly:
            self._half(self._own_calls, candidate_first=bool(self._bench.rng.integers(2)), odd=True)
        self._check_bounds()
        if self._bench.device.left_running():
            raise HarnessError("another process has begun to compute on the device; nothing is timed beside it")
        self._refuse_disturbance()
        whole_ns = median(self._call_ns) * self._own_calls
        most_ns = _HIDDEN_NS + _HIDDEN_SHARE * whole_ns
        if self.hidden_ns() > most_ns and self._hidden_in_doubt_ns() > most_ns:
            raise self._suspect(NEUTRAL, Doubtful)
        if thoroughly and self.fixed_ns() > _FIXED_NS + _FIXED_SHARE * whole_ns:
            raise self._suspect(NEUTRAL, Doubtful)
        self._refuse_slow_checks(_SLOWER_NS)

    def _draw_odd(self) -> bool | None:
        """Return the half before which there is an odd batch, or None."""
        rng = self._bench.rng
        return bool(rng.integers(2)) if self._others and rng.random() < _ODD_SHARE else None

    def forget(self) -> None:
        """Discard the batches that were timed so far."""
        super().forget()
        self._known_idle_excess_ns, self._fired = 0.0, {False: [], True: []}

    def systematic_error(self) -> float:
        """Return by how much one kernel's batch differs between the two processes, as a part of this batch."""
        return _DIFFERENCE_NS / (median(self._call_ns) * self._own_calls)

    def hidden_ns(self) -> float:
        """Return the excess of the judge's clock over the device's events, less that of a batch with no call."""
        return (
            max(median(batch.beyond_ns for batch in batches) for batches in self._fired.values())
            - self._idle_excess_ns()
        )

    def _hidden_in_doubt_ns(self) -> float:
        """Return `hidden_ns` over uninterrupted batches, compared with empty batches after the same work.

        This takes longer. After the judge fills large buffers, or after a baseline, an H100 switches to the runner's
        context up to 0.15 ms later.
        """
        found = []
        for order, batches in self._fired.items():
            undisturbed = [batch.beyond_ns for batch in batches if not batch.interrupted]
            if 2 * len(undisturbed) < len(
                batches
            ):  # hidden work makes batches longer, and long ones are interrupted more often
                raise _too_busy()
            found.append(median(undisturbed) - median(self._empty_ns(candidate_first=order)))
        return max(found)

    def _empty_ns(self, *, candidate_first: bool) -> list[float]:
        """Return the judge's clock times of batches with no call, each after the work that precedes a full batch."""
        found: list[float] = []
        for _ in range(_EMPTY_TRIES):
            _, fired = self._half(0, candidate_first=candidate_first)
            if not fired.interrupted:
                found.append(fired.beyond_ns)
            if len(found) == _EMPTY_HALVES:
                return found
        raise _too_busy()

    def fixed_ns(self) -> float:
        """Return the cost of a batch that does not depend on its length, from short batches; 0 for few calls."""
        calls = self._own_calls // _SHORT
        if not calls:
            return 0.0
        whole_ns = median(self._call_ns) * self._own_calls
        short_ns = median(self._half(calls, candidate_first=True)[1].device_ns for _ in range(_SHORT_BATCHES))
        part = calls / self._own_calls
        return (short_ns - part * whole_ns) / (1 - part)

    def _idle_excess_ns(self) -> float:
        """Return the excess of the judge's clock over the device's events for a batch with no call.

        Most of it is the change of contexts after a little work of the judge. Other programs only make it longer, so
        the shortest counts.
        """
        if not self._known_idle_excess_ns:
            limit, found = self._bench.settings.timeout_s, []
            for _ in range(_EMPTY_BATCHES):
                self._runner.arm(Batch(self._bound.name, self._shape, (), 0))
                self._bound.poison_all(self._bound.sets)
                self._runner.armed(limit)
                synchronize(self._bound.device)
                found.append(self._runner.fire(limit).beyond_ns)
            self._known_idle_excess_ns = min(found)
        return self._known_idle_excess_ns

    def _timed_half(self, *, candidate_first: bool) -> tuple[float, float]:
        """Return the times of one call of baseline and candidate, in ns, on the same new contents."""
        baseline_ns, fired = self._half(self._own_calls, candidate_first=candidate_first)
        self._fired[candidate_first].append(fired)
        self._watch.add(BatchUsage(baseline_ns * self._calls), candidate_first=candidate_first)
        return baseline_ns, max(fired.device_ns, 1.0) / self._own_calls

    def _half(self, calls: int, *, candidate_first: bool, odd: bool = False) -> tuple[float, BatchTimes]:
        """Return the time of one call of the baseline, in ns, and a batch of the candidate on the same new contents.

        With `odd` some contents are those of checks, and the times do not count. The judge's own work on the device is
        waited for at two points only: before the candidate runs, and before its outputs are compared.
        """
        rng, bound, comparison = self._bench.rng, self._bound, self._comparison
        order = rng.permutation(bound.sets).tolist()
        called, spared = order[:calls], order[calls:]
        self._runner.arm(Batch(bound.name, self._shape, called, int(rng.integers(_WORD))))
        batch = self._baselines[int(rng.integers(len(self._baselines)))]
        windows, self._windows = self._windows or self._fresh.draw_windows(bound.sets), []
        decoys = self._make_decoys(windows, among=called, most=_ODD_CALLS) if odd else {}
        self._fill(windows)
        comparison.draw(spared)
        self._runner.armed(self._bench.settings.timeout_s)  # the runner may load modules, which is work on the device
        if candidate_first:
            candidate = self._candidate()
            left_alone = comparison.left_alone()
            comparison.keep()
            self._renew(windows)
            batch.run()
        else:
            batch.run()
            comparison.keep()
            self._renew(windows)
            candidate = self._candidate()
            left_alone = comparison.left_alone()
        found = torch.cat([comparison.alike(candidate_kept=candidate_first), left_alone])
        self._windows = self._fresh.draw_windows(bound.sets)  # while the device compares
        *alike, alone = found.tolist()
        if not alone and not self._bound.changes_inputs:
            raise self._suspect(NEUTRAL)
        doubtful = [call for call in called if not alike[call] and call not in decoys]
        actual = comparison.kept if candidate_first else bound.all_outputs(bound.sets)
        self._decide(doubtful, windows, actual)
        for call, distribution in decoys.items():
            self._decide_decoy(windows[call], [array[call] for array in actual], distribution=distribution)
        self._audit_batch(called, decoys, windows, actual)
        return batch.elapsed_ns() / self._calls, candidate

    def _alone(self, *, candidate_first: bool) -> BatchUsage:
        """Return the usage of the baseline's batch in a half in which the candidate does nothing."""
        windows = self._fresh.draw_windows(self._bound.sets)
        self._fill(windows)
        if candidate_first:
            self._comparison.keep()
            self._renew(windows)
        batch = self._baselines[int(self._bench.rng.integers(len(self._baselines)))]
        return BatchUsage(batch.run_ns())

    def _renew(self, windows: Sequence[Window]) -> None:
        """Restore the buffers as they were before the first runner. A runner's kernels cannot write inputs."""
        if self._bound.changes_inputs:
            self._fill(windows)
        else:
            self._bound.poison_all(self._bound.sets)

    def _candidate(self) -> BatchTimes:
        synchronize(self._bound.device)
        return self._runner.fire(self._bench.settings.timeout_s)


def paced_calls(bound: BoundWorkload, call_ns: float) -> int:
    """Return the calls in a batch of a candidate: fewer than the baseline's where it is far slower."""
    return int(max(1, min(bound.calls, _SLOW * bound.calls * bound.least_us * 1e3 / call_ns)))


def _too_busy() -> HarnessError:
    return HarnessError(
        "judge and runner lost their cores to other programs in so many timed batches that nothing can be said of time "
        "that a kernel may have hidden; close those programs, or leave evokernel cores of its own"
    )

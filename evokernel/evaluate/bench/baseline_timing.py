"""Baselines of worker mode: their process, the cost of waking a process, and batch sizes from both."""

from collections.abc import Callable, Sequence
from statistics import median

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench.baseline_watch import BatchUsage
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess

_ANCHOR_BATCHES = 5
_WAKE_BATCHES = 21
_WAKE_BATCHES_IN_PLACE = 11
_USUAL_BATCHES = 3
_LONG_NS = 20e6
"""A batch this long makes the cost of waking negligible."""


def without_waking(elapsed_ns: float, *, wake_ns: float) -> float:
    """Return the time of a batch without the cost of waking its process, in ns; at least half of it is left."""
    return max(elapsed_ns - wake_ns, elapsed_ns / 2)


class BaselineTimer:
    """Runs baselines in their process and times them as candidates are timed.

    The cost of waking is measured on the trusted process, since a candidate could inflate its own.

    Args:
        batch_s: how long a batch of the fastest baseline should last, in s.
        first_call_s: limit of a baseline's first call, which may compile, in s.
        after_batch: called after each batch that is timed here.
    """

    def __init__(
        self,
        process: BaselineProcess,
        *,
        batch_s: float,
        first_call_s: float,
        after_batch: Callable[[], None] | None = None,
    ) -> None:
        self.process = process
        self.batch_s = batch_s
        self._least_wake_ns = 0.0
        self._wake_ns: dict[BoundWorkload, float] = {}
        self._first_call_s = first_call_s
        self._after_batch = after_batch
        self._known: set[str] = set()
        self._called: set[tuple[str, BoundWorkload]] = set()
        self._usual: dict[tuple[str, BoundWorkload], BatchUsage] = {}
        self._chosen = ""

    def attach(self, bound: BoundWorkload) -> None:
        """Map the current buffers of a workload into the process."""
        bound.attach(self.process, self._known)

    def choose(self, name: str, bound: BoundWorkload) -> None:
        """Choose the baseline of the next batches on a workload. Raises `HarnessError` where it fails there.

        Its first call runs here, since it may compile and no batch has the time for that.
        """
        self.process.select(name)
        self._chosen = name
        if (name, bound) in self._called:
            return
        try:
            self.attach(bound)
            self.process.call(bound.name, first_set=0, calls=1, timeout_s=self._first_call_s)
        except WorkerError as error:
            raise HarnessError(f"the baseline {name!r} failed on {bound.workload.name}: {error}") from error
        self._called.add((name, bound))

    def usual(self, bound: BoundWorkload) -> BatchUsage:
        """Return the usage of the chosen baseline's batches on a workload before there was any candidate.

        It is zero where it was not measured, so that each measurement is compared with batches of its own time.
        """
        return self._usual.get((self._chosen, bound), BatchUsage(0.0))

    def measure_wake(self, bound: BoundWorkload) -> None:
        """Measure the least cost of waking the process; a workload must have been attached."""
        self._least_wake_ns = self._batch_ns(bound, calls=0, batches=_WAKE_BATCHES)

    def wake_ns(self, bound: BoundWorkload) -> float:
        """Return the cost of waking a process in batches on a workload, in ns."""
        return self._wake_ns.get(bound, self._least_wake_ns)

    def measure_wake_in_place(self, bound: BoundWorkload, fresh: FreshInputs) -> None:
        """Measure the cost of waking the process between timed batches, where the scheduler keeps an account.

        After all buffers were filled the caches are cold and the core has slept: the first of a pair pays several times
        as much as the second one, and each runner is first as often as second.
        """
        if not self.process.one_thread:
            return

        first, second = list[int](), list[int]()
        for _ in range(_WAKE_BATCHES_IN_PLACE):
            for found in (first, second):
                self._prepare(bound, calls=0)
                if found is first:
                    fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.calls))
                bound.poison_all(bound.calls)
                self.process.go(timeout_s=self._first_call_s)
                found.append(self.process.ran_ns)
        self._wake_ns[bound] = (median(first) + median(second)) / 2

    def anchor(
        self, bound: BoundWorkload, fresh: FreshInputs, *, panel: Sequence[str], most_calls: int, room_bytes: int
    ) -> None:
        """Time the baselines on a workload, choose the batch size, and allocate copies for that many calls plus one."""
        self._fill(bound, fresh)
        if not self._least_wake_ns:
            self.measure_wake(bound)
        room = room_bytes // bound.set_bytes - 1
        calls = 1
        for _ in range(2):  # a batch of one call costs mostly what its process pays for waking with cold caches
            call_ns = min(self._call_ns(bound, fresh, name, calls) for name in panel)
            # a kernel could know contents again that are not new
            calls = max(1, min(round(self.batch_s * 1e9 / call_ns + 0.5), room, most_calls, fresh.affordable))
            bound.resize(calls + 1)
            self._fill(bound, fresh)
        bound.calls = calls
        self.measure_wake(bound)
        if calls * call_ns < _LONG_NS:
            self.measure_wake_in_place(bound, fresh)
        bound.baseline_us = {}
        for name in panel:
            bound.baseline_us[name] = self._call_ns(bound, fresh, name, calls) / 1e3
            self._usual[name, bound] = self._measure_usual(bound, fresh)

    def _measure_usual(self, bound: BoundWorkload, fresh: FreshInputs) -> BatchUsage:
        """Measure batches of the chosen baseline as they are timed beside a candidate, without one."""
        short = 1e3 * bound.baseline_us[self._chosen] * bound.calls < _LONG_NS
        found = []
        for _ in range(_USUAL_BATCHES if short else 1):
            self._renew(bound, fresh)
            self._prepare(bound, calls=bound.calls)
            fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.calls))
            bound.poison_all(bound.calls)
            elapsed = self.process.go(timeout_s=self._first_call_s)
            found.append(BatchUsage(without_waking(elapsed, wake_ns=self.wake_ns(bound)), self.process.faults))
            if self._after_batch is not None:
                self._after_batch()
        return BatchUsage(min(usage.batch_ns for usage in found), max(usage.faults for usage in found))

    def _fill(self, bound: BoundWorkload, fresh: FreshInputs) -> None:
        fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.sets))
        self.attach(bound)

    def _renew(self, bound: BoundWorkload, fresh: FreshInputs) -> None:
        """Renew what calls have changed in place."""
        if bound.changes_inputs:
            fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.sets))

    def _call_ns(self, bound: BoundWorkload, fresh: FreshInputs, name: str, calls: int) -> float:
        """Return the least time of one call in ns, since a busy machine only makes it longer."""
        self._renew(bound, fresh)
        self.choose(name, bound)
        least_ns = self._batch_ns(bound, calls=calls, batches=_ANCHOR_BATCHES, fresh=fresh)
        return max(least_ns - self._least_wake_ns, 1.0) / calls

    def _batch_ns(self, bound: BoundWorkload, *, calls: int, batches: int, fresh: FreshInputs | None = None) -> float:
        times = []
        for _ in range(batches):
            if fresh is not None:
                self._renew(bound, fresh)
            self._prepare(bound, calls=calls)
            times.append(self.process.go(timeout_s=self._first_call_s))
            if self._after_batch is not None:
                self._after_batch()
        return min(times)

    def _prepare(self, bound: BoundWorkload, *, calls: int) -> None:
        warm_set = bound.sets - 1 if calls else None
        limit = self._first_call_s
        self.process.prepare(bound.name, first_set=0, calls=calls, warm_set=warm_set, timeout_s=limit)

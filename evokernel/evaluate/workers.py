"""The trusted half of worker mode: the baseline process, what waking a process costs, and batch sizes from both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evokernel.evaluate.baseline import BaselineProcess
from evokernel.evaluate.fresh import FreshInputs
from evokernel.evaluate.ground import Ground

_ANCHOR_BATCHES = 5
_WAKE_BATCHES = 21


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large timed batches are: about `batch_s` of the fastest baseline, `most_calls` of them at most.

    `trial_calls` are timed to find that number: more than one where one call alone costs more to start. A baseline's
    first call may take `first_call_s`, since it may compile.
    """

    batch_s: float
    most_calls: int
    trial_calls: int
    first_call_s: float


class BaselineSide:
    """Runs baselines in their process and times them as candidates are timed.

    `wake_ns` is what waking a process costs, measured on the trusted one: a candidate could make its own look dear.
    """

    def __init__(
        self, process: BaselineProcess, limits: BatchLimits, *, after_batch: Callable[[], None] | None = None
    ) -> None:
        self.process = process
        self.wake_ns = 0.0
        self._limits = limits
        self._after_batch = after_batch
        self._known: set[str] = set()

    @property
    def batch_s(self) -> float:
        """How long a batch of the fastest baseline should last, in s."""
        return self._limits.batch_s

    def attach(self, ground: Ground) -> None:
        """Let the process know the current buffers of a workload."""
        ground.attach(self.process, self._known)

    def measure_wake(self, ground: Ground) -> None:
        """Measure what waking the process costs; a workload must have been attached."""
        self.wake_ns = self._batch_ns(ground, calls=0, batches=_WAKE_BATCHES)

    def anchor(self, ground: Ground, fresh: FreshInputs, *, panel: Sequence[str], room_bytes: int) -> None:
        """Time the baselines on a workload, choose the batch size, and make room for that many calls and one more."""
        self._fill(ground, fresh)
        if not self.wake_ns:
            self.measure_wake(ground)
        limits = self._limits
        first = self._first_ns(ground, panel)
        room = room_bytes // ground.set_bytes - 1
        calls = max(1, min(round(limits.batch_s * 1e9 / first + 0.5), room, limits.most_calls))
        ground.resize(calls + 1)
        self._fill(ground, fresh)
        ground.calls = calls
        self.measure_wake(ground)
        ground.baseline_us = {name: self._call_ns(ground, name, calls) / 1e3 for name in panel}

    def _fill(self, ground: Ground, fresh: FreshInputs) -> None:
        fresh.fill_sets(ground.all_inputs(), fresh.draw_windows(ground.sets))
        self.attach(ground)

    def _first_ns(self, ground: Ground, panel: Sequence[str]) -> float:
        """Return about how long one call of the fastest baseline takes, in ns."""
        trial = self._limits.trial_calls
        once = min(self._call_ns(ground, name, 1) for name in panel)
        if trial == 1 or once * trial > 4e9 * self._limits.batch_s:
            return once
        return min(self._call_ns(ground, name, trial) for name in panel)

    def _call_ns(self, ground: Ground, name: str, calls: int) -> float:
        """Return the least time of one call in ns: a busy machine can only make it look slower."""
        self.process.select(name)
        return max(self._batch_ns(ground, calls=calls, batches=_ANCHOR_BATCHES) - self.wake_ns, 1.0) / calls

    def _batch_ns(self, ground: Ground, *, calls: int, batches: int) -> float:
        """Return the least time of a batch in ns."""
        limit, times = self._limits.first_call_s, []
        for _ in range(batches):
            self.process.prepare(ground.name, first_set=0, calls=calls, warm_set=ground.sets - 1, timeout_s=limit)
            times.append(self.process.go(timeout_s=limit))
            if self._after_batch is not None:
                self._after_batch()
        return min(times)

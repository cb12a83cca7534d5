"""The trusted half of worker mode: the baseline process, what waking a process costs, and batch sizes from both."""

from collections.abc import Callable, Sequence

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.baseline import BaselineProcess
from evokernel.evaluate.fresh import FreshInputs
from evokernel.evaluate.ground import Ground

_ANCHOR_BATCHES = 5
_WAKE_BATCHES = 21


class BaselineSide:
    """Runs baselines in their process and times them as candidates are timed.

    `wake_ns` is what waking a process costs, measured on the trusted one: a candidate could make its own look dear.

    Args:
        process: the baseline process.
        batch_s: how long a batch of the fastest baseline should last, in s.
        first_call_s: what a baseline's first call may take, in s, since it may compile.
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
        self.wake_ns = 0.0
        self._first_call_s = first_call_s
        self._after_batch = after_batch
        self._known: set[str] = set()
        self._called: set[tuple[str, Ground]] = set()

    def attach(self, ground: Ground) -> None:
        """Let the process know the current buffers of a workload."""
        ground.attach(self.process, self._known)

    def choose(self, name: str, ground: Ground) -> None:
        """Let the next batches on a workload be those of a baseline. Raises `HarnessError` where it fails there.

        Its first call there is made here and now, since it may compile: no batch has the time for that.
        """
        self.process.select(name)
        if (name, ground) in self._called:
            return
        try:
            self.attach(ground)
            self.process.call(ground.name, first_set=0, calls=1, timeout_s=self._first_call_s)
        except WorkerError as error:
            raise HarnessError(f"the baseline {name!r} failed on {ground.workload.name}: {error}") from error
        self._called.add((name, ground))

    def measure_wake(self, ground: Ground) -> None:
        """Measure what waking the process costs; a workload must have been attached."""
        self.wake_ns = self._batch_ns(ground, calls=0, batches=_WAKE_BATCHES)

    def anchor(
        self, ground: Ground, fresh: FreshInputs, *, panel: Sequence[str], most_calls: int, room_bytes: int
    ) -> None:
        """Time the baselines on a workload, choose the batch size, and make room for that many calls and one more."""
        self._fill(ground, fresh)
        if not self.wake_ns:
            self.measure_wake(ground)
        first = min(self._call_ns(ground, name, 1) for name in panel)
        room = room_bytes // ground.set_bytes - 1
        calls = max(1, min(round(self.batch_s * 1e9 / first + 0.5), room, most_calls))
        ground.resize(calls + 1)
        self._fill(ground, fresh)
        ground.calls = calls
        self.measure_wake(ground)
        ground.baseline_us = {name: self._call_ns(ground, name, calls) / 1e3 for name in panel}

    def _fill(self, ground: Ground, fresh: FreshInputs) -> None:
        fresh.fill_sets(ground.all_inputs(), fresh.draw_windows(ground.sets))
        self.attach(ground)

    def _call_ns(self, ground: Ground, name: str, calls: int) -> float:
        """Return the least time of one call in ns: a busy machine can only make it look slower."""
        self.choose(name, ground)
        return max(self._batch_ns(ground, calls=calls, batches=_ANCHOR_BATCHES) - self.wake_ns, 1.0) / calls

    def _batch_ns(self, ground: Ground, *, calls: int, batches: int) -> float:
        """Return the least time of a batch in ns."""
        limit, times = self._first_call_s, []
        for _ in range(batches):
            self.process.prepare(ground.name, first_set=0, calls=calls, warm_set=ground.sets - 1, timeout_s=limit)
            times.append(self.process.go(timeout_s=limit))
            if self._after_batch is not None:
                self._after_batch()
        return min(times)

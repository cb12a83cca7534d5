"""Paired batches of candidate and baseline: fresh inputs at the last moment, every timed output verified.

A worker keeps its memory, so it may know by counting that the checks are over, and take short cuts that only contents
such as those of timed calls allow. So some batches look like timed ones and are not: some of their calls have the
contents of checks. One stands at the very end, which nobody can tell from the middle.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.feedback import NEUTRAL, out_of_bounds
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.correctness import alike_calls, judge_output, judge_timed
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock
from evokernel.evaluate.numerics.timed_inputs import Content, FreshInputs, Window
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.evaluate.sandbox.timed_process import RunnerProcess
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Role

T = TypeVar("T")
_SLOW_NS = 20e6
"""A call this long needs no warm-up: what it warms is gone before it ends."""
_ODD_SHARE = 0.2
"""How many blocks have a batch with odd calls in it; the first always has, and one more stands at the end."""
_ATTEMPTS, _PAUSE_S = 3, 0.2
"""How often a candidate whose times are doubtful is measured, and how long whoever causes that is waited for. With two
attempts and no wait, an H100 was in doubt about four honest kernels of 611, all within one hour of one machine.
"""
_APART = 0.002
"""By how much a processor's times of one kernel in two processes differ, as a part of them: on two cores of a virtual
AMD EPYC by 0.1 to 0.3 %, as long as both live.
"""
_RENEWED = 8
"""Between two runners, one in this many inputs is written anew where a runner might have changed them."""


class Rejected(Exception):
    """A timed call was wrong; carries the verdict."""

    def __init__(self, outcome: PhaseVerdict) -> None:
        super().__init__(outcome.feedback)
        self.outcome = outcome


class Doubtful(Rejected):
    """Its times look as if work was hidden. Whoever else is on the device can cause that for a while, too."""


def confirmed(clock: "PairedClock", attempt: Callable[[], T]) -> T:
    """Return what an attempt has measured and confirmed; where its times are doubtful, what the next one has.

    Each is made of batches of its own: nothing that was in doubt counts, so that who hides time gains nothing by that.
    Raises as the last `attempt`.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Doubtful:
            clock.forget()
            time.sleep(_PAUSE_S)
    return attempt()


class PairedClock(ABC):
    """Times one candidate against one baseline on one workload, block by block.

    Both run on the same buffers and the same contents. Whoever runs first has its outputs copied to private memory,
    where they wait for those of the other.
    """

    def __init__(self, bench: Bench, ground: BoundWorkload, fresh: FreshInputs, *, stage: Stage) -> None:
        self._bench = bench
        self._ground = ground
        self._fresh = fresh
        self._stage = stage
        self._changes_inputs = any(tensor.role is Role.INOUT for tensor in ground.task.signature.inputs)
        self._expected = ground.case(ground.workload.distribution).expected

    @abstractmethod
    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`."""

    def systematic_error(self) -> float:
        """Return the standard error of the log speed-up that no repetition within this process can show."""
        return 0.0

    @abstractmethod
    def finish(self, *, thoroughly: bool) -> None:
        """Look at what cannot be seen in one block; `thoroughly` before it counts. Raises as `block`, or `Doubtful`."""

    def forget(self) -> None:
        """Begin anew: what was timed so far is not looked at again."""
        return

    def _check_bounds(self) -> None:
        broken = out_of_bounds(self._ground, self._stage)
        if broken is not None:
            raise Rejected(broken)

    def _suspect(self, what: str, kind: type[Rejected] = Rejected) -> Rejected:
        return kind(PhaseVerdict(Status.CHEAT_SUSPECT, self._stage, f"on {self._ground.label}: {what}"))

    def _fill(self, windows: Sequence[Window]) -> None:
        self._fresh.fill_sets(self._ground.all_inputs(), windows)
        self._ground.poison_all(len(windows))

    def _decide(self, calls: Iterable[int], windows: Sequence[Window], actual: Sequence[Array]) -> None:
        """Let the reference decide on calls where the candidate's outputs are not plainly the baseline's.

        Raises:
            Rejected: one is wrong.
        """
        ground = self._ground
        for call in calls:
            inputs = self._contents(windows[call])
            native = native_answer(ground.task, ground.workload, inputs)
            outputs = [array[call] for array in actual]
            poison, hidden = ground.poison_word, ground.hidden
            if judge_timed(self._expected, outputs, native=native, poison=poison, hidden=hidden) is not None:
                raise self._suspect(NEUTRAL)  # it passed every check on single calls; how it was found out is not told

    def _contents(self, window: Window) -> dict[str, Array]:
        """Return what a call was given."""
        inputs = {name: torch.empty_like(view) for name, view in self._ground.views(0).items()}
        self._fresh.fill(inputs, window)
        return inputs


class WorkerClock(PairedClock):
    """Times a worker from waking it to its answer, see `RunnerProcess`.

    Both runners are warmed up and stopped before the contents are there, and each wakes for its batch alone.
    """

    def __init__(
        self,
        bench: Bench,
        worker: ForkedRunner,
        ground: BoundWorkload,
        fresh: FreshInputs,
        *,
        stage: Stage,
        call_s: float,
    ) -> None:
        super().__init__(bench, ground, fresh, stage=stage)
        self._worker = worker
        self._kept = [torch.empty(out.shape, dtype=out.dtype, device=out.device) for out in self._wrote(ground.calls)]
        self._baselines = bench.workers.baselines
        self._baselines.attach(ground)
        self._wake_ns = self._baselines.wake_ns(ground)
        self._once_ns = max(call_s * 1e9 - self._wake_ns, 1.0)
        self._neighbours = self._count_neighbours()
        self._others = [name for name in ground.task.distributions if name != ground.workload.distribution]
        self._begun = False

    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`.

        The first half comes after a longer pause than the second, and whoever begins it may pay for that: who does is
        drawn each time.
        """
        calls, warm = self._pace()
        odd, halves, odd_ns = self._draw_odd(), dict[bool, tuple[float, float]](), 0.0
        beginning = bool(self._bench.rng.integers(2))
        for candidate_first in (beginning, not beginning):
            if candidate_first == odd:  # in the order of the half that would have been next
                times = self._half(calls, warm=warm, candidate_first=candidate_first, odd=True)
                odd_ns = times[0] * self._ground.calls + times[1] * calls
            halves[candidate_first] = self._half(calls, warm=warm, candidate_first=candidate_first)
        self._check_bounds()
        baseline, candidate = ((halves[False][side], halves[True][side]) for side in (0, 1))
        clock_ns = sum(baseline) * self._ground.calls + sum(candidate) * calls + odd_ns
        return CounterbalancedBlock(baseline, candidate, clock_ns / 1e9)

    def systematic_error(self) -> float:
        """Return by how much one kernel differs between the two processes, as part of its time; on a GPU not known."""
        return _APART if self._ground.device == "cpu" else super().systematic_error()

    def finish(self, *, thoroughly: bool) -> None:
        """Have one more batch with odd calls, whatever `thoroughly` says: it is short. Raises as `block`."""
        if self._others and self._begun:
            calls, warm = self._pace()
            self._half(calls, warm=warm, candidate_first=bool(self._bench.rng.integers(2)), odd=True)
            self._check_bounds()

    def _draw_odd(self) -> bool | None:
        """Return the half before which there is a batch with odd calls, or None."""
        rng, first, self._begun = self._bench.rng, not self._begun, True
        return bool(rng.integers(2)) if self._others and (first or rng.random() < _ODD_SHARE) else None

    def _half(self, calls: int, *, warm: bool, candidate_first: bool, odd: bool = False) -> tuple[float, float]:
        """Return the times of one call of baseline and candidate, in ns, on the same new contents.

        With `odd` some contents are those of checks; the times mean nothing then.
        """
        try:
            return self._both(calls, warm=warm, candidate_first=candidate_first, odd=odd)
        finally:
            self._baselines.process.abandon()  # a candidate that dies first must not leave it waiting for its batch

    def _both(self, calls: int, *, warm: bool, candidate_first: bool, odd: bool) -> tuple[float, float]:
        self._prepare(calls, warm=warm, candidate_first=candidate_first)
        windows = self._fresh.draw_windows(self._ground.calls)
        oddities = self._make_odd(windows, calls) if odd else {}
        self._fill(windows)
        if candidate_first:
            candidate = self._candidate(calls)
            actual = self._keep(calls)
            self._renew(windows)
            baseline = self._baseline()
            due = self._wrote(calls)
        else:
            baseline = self._baseline()
            due = self._keep(calls)
            self._renew(windows)
            candidate = self._candidate(calls)
            actual = self._wrote(calls)
        alike = self._alike(actual, due, among=range(calls)).tolist()
        self._decide((each for each, right in enumerate(alike) if not right and each not in oddities), windows, actual)
        if not odd:
            self._once_ns = min(self._once_ns, candidate)  # the first estimate may come from a busy moment
        for call, distribution in oddities.items():
            self._decide_odd(windows[call], [array[call] for array in actual], distribution=distribution)
        return baseline, candidate

    def _prepare(self, calls: int, *, warm: bool, candidate_first: bool) -> None:
        """Warm both up and stop them: whoever runs first last, or one of the two always had the colder caches."""
        ground, limit = self._ground, self._bench.settings.timeout_s

        def prepare_candidate() -> None:
            warm_set = ground.calls if warm else None
            self._worker.prepare(ground.name, first_set=0, calls=calls, warm_set=warm_set, timeout_s=limit)
            self._look()

        def prepare_baseline() -> None:
            with _our_own_fault():
                self._baselines.process.prepare(
                    ground.name, first_set=0, calls=ground.calls, warm_set=ground.calls, timeout_s=limit
                )

        both = (prepare_baseline, prepare_candidate)
        for prepare in both if candidate_first else reversed(both):
            prepare()

    def _make_odd(self, windows: list[Window], calls: int) -> dict[int, str]:
        """Give some of the candidate's calls contents of checks; returns the distribution of each."""
        rng, ground = self._bench.rng, self._ground
        count = min(calls, len(self._others))
        where = rng.choice(calls, count, replace=False).tolist()
        oddities = dict(zip(where, rng.permutation(self._others).tolist(), strict=False))
        for call, distribution in oddities.items():
            drawn = draw(ground.task, ground.workload, distribution, rng, device=ground.device)
            windows[call] = {name: Content(array.reshape(-1), 0, array.numel()) for name, array in drawn.items()}
        return oddities

    def _decide_odd(self, window: Window, outputs: Sequence[Array], *, distribution: str) -> None:
        """Raise `Rejected` where a call with the content of a check is wrong."""
        ground, inputs = self._ground, self._contents(window)
        poison, hidden = ground.poison_word, ground.hidden
        native = native_answer(ground.task, ground.workload, inputs)
        expected = ground.case(distribution).expected
        if judge_timed(expected, outputs, native=native, poison=poison, hidden=hidden) is None:
            return
        exactly = expect(ground.task, ground.workload, inputs, distribution=distribution)  # takes several times as long
        if judge_output(exactly, outputs, poison=poison, hidden=hidden) is not None:
            raise self._suspect(NEUTRAL)

    def _wrote(self, calls: int) -> Sequence[Array]:
        """Return what lies in the outputs of the first calls; nobody may be at work on them."""
        return self._ground.all_outputs(calls)

    def _keep(self, calls: int) -> Sequence[Array]:
        """Return a private copy of what lies in the outputs of the first calls; good until the next one."""
        return [kept[:calls].copy_(out) for kept, out in zip(self._kept, self._wrote(calls), strict=True)]

    def _alike(self, actual: Sequence[Array], due: Sequence[Array], *, among: Sequence[int]) -> Array:
        """Compare the candidate's outputs with the baseline's: one truth value for each call, on the device."""
        share, rng = self._bench.device.timed_share, self._bench.rng
        return alike_calls(self._expected, actual, due, share=share, rng=rng, among=among)

    def _pace(self) -> tuple[int, bool]:
        """Return how many calls a batch of the candidate has, and whether it is warmed up first."""
        calls = self._ground.calls
        batch_ns = 1e9 * self._baselines.batch_s
        if self._once_ns * calls > 4 * batch_ns:  # far slower than the baseline: fewer calls fill a batch
            calls = max(1, min(calls, round(batch_ns / self._once_ns)))
        return calls, self._once_ns < _SLOW_NS

    def _renew(self, windows: Sequence[Window]) -> None:
        """Make the buffers what they were before the first runner: inputs that it cannot have written are so still."""
        if self._changes_inputs:
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
            return self._go(self._baselines.process, self._ground.calls)

    def _candidate(self, calls: int) -> float:
        time_ns = self._go(self._worker, calls)
        self._look()
        return time_ns

    def _look(self) -> None:
        """Make sure that the stopped candidate has nothing at work on the device: stopping a process stops no kernel.

        What it left there could read contents before their time, or slow the baseline down.

        Raises:
            Rejected: it had.
            HarnessError: somebody has, and it is not the candidate.
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
        return max(elapsed - self._wake_ns, elapsed / 2) / calls


@contextmanager
def _our_own_fault() -> Iterator[None]:
    """Turn a failure of the baseline process into what it is. Raises `HarnessError`."""
    try:
        yield
    except WorkerError as error:
        raise HarnessError(f"the baseline process failed: {error}") from error

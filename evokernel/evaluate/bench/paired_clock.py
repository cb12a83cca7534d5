"""Paired batches of candidate and baseline: fresh inputs at the last moment, every timed output verified.

A worker keeps its memory, so it may count calls to know that the checks are over. It could then take short cuts that
only contents of timed calls allow. So some batches are decoys: they look like timed ones, and some of their calls have
the contents of checks. One stands at the very end, which a worker cannot tell from the middle.
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
"""A call this long needs no warm-up: it outlives the caches that a warm-up fills."""
_DECOY_SHARE = 0.2
"""Share of blocks with a decoy batch; the first block always has one, and one more stands at the end."""
_ATTEMPTS, _PAUSE_S = 3, 0.2
"""Measurements of a candidate with doubtful times, and the pause between them, in s. With two attempts and no pause, an
H100 doubted four honest kernels of 611, all within one hour of one machine.
"""
_DIFFERENCE = 0.002
"""Relative difference of one kernel's times in two processes on a processor. On two cores of a virtual AMD EPYC it is
0.1 to 0.3 %, and stays the same as long as both processes live.
"""
_RENEWED = 8
"""Between two runners, one in this many input sets is rewritten where a runner might have changed it."""


class Rejected(Exception):
    """A timed call was wrong; carries the verdict."""

    def __init__(self, outcome: PhaseVerdict) -> None:
        super().__init__(outcome.feedback)
        self.outcome = outcome


class Doubtful(Rejected):
    """The times look as if work was hidden. Other programs on the device can cause that for a while, too."""


def confirmed(clock: "PairedClock", attempt: Callable[[], T]) -> T:
    """Return the result of the first attempt whose times are not doubtful.

    Each attempt is made of batches of its own and doubtful ones do not count, so that hiding time gains nothing. Raises
    as the last `attempt`.
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

    Both run on the same buffers and the same contents. The outputs of the first runner are copied to private memory and
    compared with those of the second.
    """

    def __init__(self, bench: Bench, bound: BoundWorkload, fresh: FreshInputs, *, stage: Stage) -> None:
        self._bench = bench
        self._bound = bound
        self._fresh = fresh
        self._stage = stage
        self._changes_inputs = any(tensor.role is Role.INOUT for tensor in bound.task.signature.inputs)
        self._expected = bound.case(bound.workload.distribution).expected

    @abstractmethod
    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`."""

    def systematic_error(self) -> float:
        """Return the standard error of the log speed-up that no repetition within this process can show."""
        return 0.0

    @abstractmethod
    def finish(self, *, thoroughly: bool) -> None:
        """Check what one block cannot show; `thoroughly` before the result counts. Raises as `block`, or `Doubtful`."""

    def forget(self) -> None:
        """Discard the batches that were timed so far."""
        return

    def _check_bounds(self) -> None:
        broken = out_of_bounds(self._bound, self._stage)
        if broken is not None:
            raise Rejected(broken)

    def _suspect(self, what: str, kind: type[Rejected] = Rejected) -> Rejected:
        return kind(PhaseVerdict(Status.CHEAT_SUSPECT, self._stage, f"on {self._bound.label}: {what}"))

    def _fill(self, windows: Sequence[Window]) -> None:
        self._fresh.fill_sets(self._bound.all_inputs(), windows)
        self._bound.poison_all(len(windows))

    def _decide(self, calls: Iterable[int], windows: Sequence[Window], actual: Sequence[Array]) -> None:
        """Check calls whose outputs are not plainly the baseline's against the reference.

        Raises:
            Rejected: one is wrong.
        """
        bound = self._bound
        for call in calls:
            inputs = self._contents(windows[call])
            native = native_answer(bound.task, bound.workload, inputs)
            outputs = [array[call] for array in actual]
            poison, hidden = bound.poison_word, bound.hidden
            if judge_timed(self._expected, outputs, native=native, poison=poison, hidden=hidden) is not None:
                raise self._suspect(
                    NEUTRAL
                )  # it passed every check on single calls; the feedback hides how it was found

    def _contents(self, window: Window) -> dict[str, Array]:
        """Return the inputs of a call."""
        inputs = {name: torch.empty_like(view) for name, view in self._bound.views(0).items()}
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
        bound: BoundWorkload,
        fresh: FreshInputs,
        *,
        stage: Stage,
        call_s: float,
    ) -> None:
        super().__init__(bench, bound, fresh, stage=stage)
        self._worker = worker
        self._kept = [torch.empty(out.shape, dtype=out.dtype, device=out.device) for out in self._wrote(bound.calls)]
        self._baselines = bench.workers.baselines
        self._baselines.attach(bound)
        self._wake_ns = self._baselines.wake_ns(bound)
        self._once_ns = max(call_s * 1e9 - self._wake_ns, 1.0)
        self._neighbours = self._count_neighbours()
        self._others = [name for name in bound.task.distributions if name != bound.workload.distribution]
        self._begun = False

    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`.

        The first half comes after a longer pause than the second, and its first runner may pay for that. So that runner
        is drawn each time.
        """
        calls, warm = self._pace()
        decoy, halves, decoy_ns = self._draw_decoy(), dict[bool, tuple[float, float]](), 0.0
        beginning = bool(self._bench.rng.integers(2))
        for candidate_first in (beginning, not beginning):
            if candidate_first == decoy:  # a decoy has the order of the half that it precedes
                times = self._half(calls, warm=warm, candidate_first=candidate_first, decoy=True)
                decoy_ns = times[0] * self._bound.calls + times[1] * calls
            halves[candidate_first] = self._half(calls, warm=warm, candidate_first=candidate_first)
        self._check_bounds()
        baseline, candidate = ((halves[False][side], halves[True][side]) for side in (0, 1))
        clock_ns = sum(baseline) * self._bound.calls + sum(candidate) * calls + decoy_ns
        return CounterbalancedBlock(baseline, candidate, clock_ns / 1e9)

    def systematic_error(self) -> float:
        """Return the relative difference of one kernel between the two processes; 0 on a GPU, where it is not known."""
        return _DIFFERENCE if self._bound.device == "cpu" else super().systematic_error()

    def finish(self, *, thoroughly: bool) -> None:
        """Run one more decoy batch, whatever `thoroughly` says: it is short. Raises as `block`."""
        if self._others and self._begun:
            calls, warm = self._pace()
            self._half(calls, warm=warm, candidate_first=bool(self._bench.rng.integers(2)), decoy=True)
            self._check_bounds()

    def _draw_decoy(self) -> bool | None:
        """Return the half before which there is a decoy batch, or None."""
        rng, first, self._begun = self._bench.rng, not self._begun, True
        return bool(rng.integers(2)) if self._others and (first or rng.random() < _DECOY_SHARE) else None

    def _half(self, calls: int, *, warm: bool, candidate_first: bool, decoy: bool = False) -> tuple[float, float]:
        """Return the times of one call of baseline and candidate, in ns, on the same new contents.

        With `decoy` some contents are those of checks, and the times do not count.
        """
        try:
            return self._both(calls, warm=warm, candidate_first=candidate_first, decoy=decoy)
        finally:
            self._baselines.process.abandon()  # the baseline must not wait for its batch where the candidate dies first

    def _both(self, calls: int, *, warm: bool, candidate_first: bool, decoy: bool) -> tuple[float, float]:
        self._prepare(calls, warm=warm, candidate_first=candidate_first)
        windows = self._fresh.draw_windows(self._bound.calls)
        decoys = self._make_decoys(windows, calls) if decoy else {}
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
        self._decide((each for each, right in enumerate(alike) if not right and each not in decoys), windows, actual)
        if not decoy:
            self._once_ns = min(self._once_ns, candidate)  # the first estimate may come from a busy moment
        for call, distribution in decoys.items():
            self._decide_decoy(windows[call], [array[call] for array in actual], distribution=distribution)
        return baseline, candidate

    def _prepare(self, calls: int, *, warm: bool, candidate_first: bool) -> None:
        """Warm both up and stop them, the first runner last: otherwise one of the two always had the colder caches."""
        bound, limit = self._bound, self._bench.settings.timeout_s

        def prepare_candidate() -> None:
            warm_set = bound.calls if warm else None
            self._worker.prepare(bound.name, first_set=0, calls=calls, warm_set=warm_set, timeout_s=limit)
            self._check_idle()

        def prepare_baseline() -> None:
            with _baseline_faults():
                self._baselines.process.prepare(
                    bound.name, first_set=0, calls=bound.calls, warm_set=bound.calls, timeout_s=limit
                )

        both = (prepare_baseline, prepare_candidate)
        for prepare in both if candidate_first else reversed(both):
            prepare()

    def _make_decoys(self, windows: list[Window], calls: int) -> dict[int, str]:
        """Give some of the candidate's calls the contents of checks; return the distribution of each such call."""
        rng, bound = self._bench.rng, self._bound
        count = min(calls, len(self._others))
        where = rng.choice(calls, count, replace=False).tolist()
        decoys = dict(zip(where, rng.permutation(self._others).tolist(), strict=False))
        for call, distribution in decoys.items():
            drawn = draw(bound.task, bound.workload, distribution, rng, device=bound.device)
            windows[call] = {name: Content(array.reshape(-1), 0, array.numel()) for name, array in drawn.items()}
        return decoys

    def _decide_decoy(self, window: Window, outputs: Sequence[Array], *, distribution: str) -> None:
        """Raise `Rejected` where a call with the contents of a check is wrong."""
        bound, inputs = self._bound, self._contents(window)
        poison, hidden = bound.poison_word, bound.hidden
        native = native_answer(bound.task, bound.workload, inputs)
        expected = bound.case(distribution).expected
        if judge_timed(expected, outputs, native=native, poison=poison, hidden=hidden) is None:
            return
        exactly = expect(bound.task, bound.workload, inputs, distribution=distribution)  # takes several times as long
        if judge_output(exactly, outputs, poison=poison, hidden=hidden) is not None:
            raise self._suspect(NEUTRAL)

    def _wrote(self, calls: int) -> Sequence[Array]:
        """Return views of the outputs of the first calls; both runners must be stopped."""
        return self._bound.all_outputs(calls)

    def _keep(self, calls: int) -> Sequence[Array]:
        """Return a private copy of the outputs of the first calls, valid until the next copy."""
        return [kept[:calls].copy_(out) for kept, out in zip(self._kept, self._wrote(calls), strict=True)]

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
        if self._changes_inputs:
            self._fill(windows)
            return
        self._bound.poison_all(len(windows))
        if self._bound.device != "cpu":
            # On a GPU, hostile host code can still write inputs. Changed for the baseline too, they would make wrong
            # outputs look right. So some are rewritten, and a candidate cannot know which.
            some = -(-len(windows) // _RENEWED)
            for call in self._bench.rng.choice(len(windows), some, replace=False).tolist():
                self._fresh.fill(self._bound.views(call), windows[call])

    def _baseline(self) -> float:
        with _baseline_faults():
            return self._go(self._baselines.process, self._bound.calls)

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
        return max(elapsed - self._wake_ns, elapsed / 2) / calls


@contextmanager
def _baseline_faults() -> Iterator[None]:
    """Turn a failure of the baseline process into a `HarnessError`."""
    try:
        yield
    except WorkerError as error:
        raise HarnessError(f"the baseline process failed: {error}") from error

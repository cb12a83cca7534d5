"""Paired batches of candidate and baseline: fresh inputs at the last moment, every timed output verified.

What keeps some memory may count calls to know that the checks are over. It could then take short cuts that only
contents of timed calls allow. So some batches are decoys: they look like timed ones, and some of their calls have the
contents of checks. A candidate cannot tell where they stand.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import numpy as np
import torch

from evokernel.evaluate.bench.baseline_watch import DISTURBED, BaselineWatch, BatchUsage
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.feedback import NEUTRAL, out_of_bounds
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.arrays import EDGED, Array, differ, store
from evokernel.evaluate.numerics.correctness import judge_output, judge_timed
from evokernel.evaluate.numerics.expected import Expected
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.references import high_answer, native_answer
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock
from evokernel.evaluate.numerics.timed_inputs import Content, FreshInputs, Window
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Stage, Status

T = TypeVar("T")
_AUDITED = 0.25
"""Share of the batches with an audit, beside the first."""
_FEW_EDGES = 1 / 1000
"""Share of an output at edges that is not worth an audit: a kernel that left out twice as much would be no faster."""
OUTGROWN = 2
"""A block counts only where its candidate is not so fast that batches should have this many times as many calls."""
_SLOWER = 5.0
"""A check call may take this many times as long as a timed call: caches are cold, pages new."""
_ATTEMPTS, _PATIENT_ATTEMPTS, _PAUSE_S = 3, 12, 0.3
"""Measurements of a candidate with doubtful times, alone on the device or beside others, and the pause between them, in
s. With two attempts and no pause, an H100 doubted four honest kernels of 611, all within one hour of one machine; with
three and 0.2 s an H200 doubted one or two of some 150 beside other tests.
"""


class Rejected(Exception):
    """A timed call was wrong; carries the verdict."""

    def __init__(self, outcome: PhaseVerdict) -> None:
        super().__init__(outcome.feedback)
        self.outcome = outcome


class Doubtful(Rejected):
    """The times look as if work was hidden. Other programs on the device can cause that for a while, too."""


class MeasureAgain(Exception):
    """The baseline may have paid for the candidate. From now on its times alone count."""


def late_places(rng: np.random.Generator, order: Sequence[int], count: int) -> list[int]:
    """Return some places of a batch's order, all of them behind one that is drawn first.

    A candidate may work honestly in a batch once it has seen contents of checks, and take short cuts after many calls
    without. Among places drawn one by one, hardly ever are all so late.
    """
    begin = int(rng.integers(len(order) - count + 1))
    return [int(place) for place in rng.choice(order[begin:], count, replace=False)]


def confirmed(clock: "PairedClock", attempt: Callable[[], T]) -> T:
    """Return the result of the first attempt whose times are not doubtful.

    Each attempt is made of batches of its own and doubtful ones do not count, so that hiding time gains nothing. There
    are more where other programs may have caused the doubt. Raises as the last `attempt`.
    """
    doubts, others = 0, False
    while True:
        try:
            return attempt()
        except MeasureAgain:
            clock.forget()
        except Doubtful:
            doubts += 1
            others = clock.pause(_PAUSE_S) or others
            if doubts >= (_PATIENT_ATTEMPTS if others else _ATTEMPTS):
                raise
            clock.forget()


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call of the checks on the distribution that is timed."""

    ns: float
    """Its least time, in ns."""
    anew: Callable[[], float]
    """Returns that time where a candidate without memory of earlier calls is asked all checks. Raises `WorkerError`."""


class PairedClock(ABC):
    """Times one candidate against one baseline on one workload, block by block.

    Both run on the same buffers and the same contents. The outputs of the first runner are copied to private memory and
    compared with those of the second. `usual` is the usage of the baseline's batches before there was any candidate.
    """

    def __init__(
        self,
        bench: Bench,
        bound: BoundWorkload,
        fresh: FreshInputs,
        *,
        stage: Stage,
        checked: CheckedCall,
        usual: BatchUsage,
    ) -> None:
        self._bench = bench
        self._bound = bound
        self._fresh = fresh
        self._stage = stage
        self._checked = checked
        self._watch = BaselineWatch(usual)
        self._call_ns: list[float] = []
        """Times of one call of the candidate in the batches that count."""
        self._expected = bound.tolerance(bound.workload.distribution)
        self._others = [name for name in bound.distributions if name != bound.workload.distribution]
        self._to_come: list[str] = []
        """Distributions of the next decoys: each one comes once before any comes again."""
        self._not_met = {*self._others}
        """Those that no decoy has had yet."""
        self._audited = False

    @abstractmethod
    def block(self) -> CounterbalancedBlock:
        """Time both twice, each once before the other. Raises `Rejected`, `WorkerError`."""

    def systematic_error(self) -> float:
        """Return the standard error of the log speed-up that no repetition within this process can show."""
        return 0.0

    @abstractmethod
    def finish(self, *, thoroughly: bool) -> None:
        """Check what one block cannot show; `thoroughly` before the result counts.

        Raises as `block`, or `Doubtful`, or `MeasureAgain`.
        """

    def pause(self, seconds: float) -> bool:
        """Wait between two measurements; say whether others were on the device meanwhile."""
        return self._bench.device.pause(seconds)

    def forget(self) -> None:
        """Discard the batches that were timed so far."""
        self._call_ns = []
        self._watch.forget()

    def _refuse_disturbance(self) -> None:
        """Raise `MeasureAgain` where the baseline may have paid for the candidate, `Doubtful` where it did."""
        if self._watch.alarms():
            raise MeasureAgain
        if self._watch.convicts():
            raise self._suspect(DISTURBED, Doubtful)

    def _refuse_slow_checks(self, slower_ns: float) -> None:
        """Raise `Doubtful` where checks take far longer than timed calls of the same distribution.

        First calls of an honest process may be slow, and so may calls beside others. Then those of another are not.
        """
        most_ns = _SLOWER * median(self._call_ns) + slower_ns if self._call_ns else math.inf
        if self._checked.ns > most_ns and self._checked.anew() > most_ns:
            raise self._suspect(NEUTRAL, Doubtful)

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

        Raises `Rejected` if one is wrong.
        """
        bound = self._bound
        for call in calls:
            inputs = self._contents(windows[call])
            native = native_answer(bound.task, bound.workload, inputs)
            outputs = [array[call] for array in actual]
            poison, hidden = bound.poison_word, bound.hidden
            if judge_timed(self._expected, outputs, native=native, poison=poison, hidden=hidden) is None:
                continue
            # the native answer alone does not tell where elements of a byte may fall either way; fp64 mostly does
            if self._has_edges and self._is_rounded(inputs, outputs):
                continue
            # the tolerance was that of other inputs: of 18,000 calls of an honest gradient one was beyond it
            if self._is_wrong(inputs, outputs, distribution=bound.workload.distribution):
                # it passed every check on single calls; the feedback hides how it was found
                raise self._suspect(NEUTRAL)

    def _audit_batch(
        self, called: Iterable[int], decoys: Mapping[int, str], windows: Sequence[Window], actual: Sequence[Array]
    ) -> None:
        """Audit one timed call of some batches, and one decoy, if there is any. Raises as `_audit`."""
        if self._audited and self._bench.rng.random() >= _AUDITED:
            return
        self._audited = True
        self._audit(self._expected, (call for call in called if call not in decoys), windows, actual)
        for call in [*decoys][:1]:  # which distribution comes first is drawn
            self._audit(self._bound.tolerance(decoys[call]), (call,), windows, actual)

    def _audit(
        self, expected: Expected, calls: Iterable[int], windows: Sequence[Window], actual: Sequence[Array]
    ) -> None:
        """Compare one call of some, drawn after the batch, with what is due for its very inputs.

        A plain look lets as many elements differ as may lie at edges, whichever they are: in 16 bits that may be half.
        Raises `Rejected` if it is wrong.
        """
        # outputs of which a plain look lets elements differ that need not
        places = [place for place, output in enumerate(expected.outputs) if output.may_differ > _FEW_EDGES]
        some = [*calls]
        if not places or not some:
            return
        call = int(self._bench.rng.choice(some))
        inputs, outputs = self._contents(windows[call]), [array[call] for array in actual]
        native = native_answer(self._bound.task, self._bound.workload, inputs)
        if any(differ(outputs[place], native[place]).any() for place in places) and self._is_wrong(
            inputs, outputs, distribution=expected.distribution
        ):
            raise self._suspect(NEUTRAL)

    @property
    def _has_edges(self) -> bool:
        return any(output.native.dtype in EDGED for output in self._expected.outputs)

    def _is_rounded(self, inputs: dict[str, Array], outputs: Sequence[Array]) -> bool:
        """Say whether a call's outputs plainly are the fp64 answer: nearer than torch's own in 16 bits."""
        bound = self._bound
        high = high_answer(bound.task, bound.workload, inputs)
        due = [store(each, tensor.dtype) for each, tensor in zip(high, result_tensors(bound.task), strict=True)]
        poison, hidden = bound.poison_word, bound.hidden
        return judge_timed(self._expected, outputs, native=due, poison=poison, hidden=hidden) is None

    def _is_wrong(self, inputs: dict[str, Array], outputs: Sequence[Array], *, distribution: str) -> bool:
        """Compare with what is expected for these very inputs, which takes several times as long as a native answer."""
        bound = self._bound
        exactly = expect(bound.task, bound.workload, inputs, distribution=distribution)
        return judge_output(exactly, outputs, poison=bound.poison_word, hidden=bound.hidden) is not None

    def _contents(self, window: Window) -> dict[str, Array]:
        """Return the inputs of a call."""
        inputs = {name: torch.empty_like(view) for name, view in self._bound.views(0).items()}
        self._fresh.fill(inputs, window)
        return inputs

    def _make_decoys(self, windows: list[Window], *, among: Sequence[int], most: int) -> dict[int, str]:
        """Give at most `most` of some calls the contents of checks; return the distribution of each such call."""
        rng, bound = self._bench.rng, self._bound
        count = min(len(among), len(self._others), most)
        decoys = dict(zip(late_places(rng, among, count), self._next_distributions(count), strict=True))
        for call, distribution in decoys.items():
            drawn = draw(bound.task, bound.workload, distribution, rng, device=bound.device)
            windows[call] = {name: Content(array.reshape(-1)) for name, array in drawn.items()}
        return decoys

    def _next_distributions(self, count: int) -> list[str]:
        """Return distributions for so many decoys of a batch, no two of them alike.

        Drawn anew each time, a batch of one call would leave the one that shows a short cut out for long.
        """
        if len(self._to_come) < count:
            rest = [name for name in self._others if name not in self._to_come]
            self._to_come += self._bench.rng.permutation(rest).tolist()
        chosen, self._to_come = self._to_come[:count], self._to_come[count:]
        self._not_met -= {*chosen}
        return chosen

    def _decide_decoy(self, window: Window, outputs: Sequence[Array], *, distribution: str) -> None:
        """Raise `Rejected` where a call with the contents of a check is wrong."""
        bound, inputs = self._bound, self._contents(window)
        poison, hidden = bound.poison_word, bound.hidden
        native = native_answer(bound.task, bound.workload, inputs)
        expected = bound.tolerance(distribution)
        if judge_timed(expected, outputs, native=native, poison=poison, hidden=hidden) is None:
            return
        if self._is_wrong(inputs, outputs, distribution=distribution):
            raise self._suspect(NEUTRAL)

"""Compares all outputs of a batch with a baseline's on the same inputs, on the device.

The comparison is captured once for a workload's buffers and replayed for each batch: queued one by one, its operations
would cost the host more time than the device. Every output of every call is compared, from the first element to the
last. Of the copies without a call some are checked too, drawn anew each time.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from evokernel.evaluate.artifact_mode.row_comparison import RowComparison
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.arrays import Array, bits
from evokernel.evaluate.numerics.correctness import rows_alike, rows_right, timed_limits

_SPARED = 4
"""Most copies outside a batch that are checked."""

Work = Callable[[], Array]


class OutputComparison:
    """The comparison over a workload's current buffers. `comparers` are by dtype; without one torch compares."""

    def __init__(
        self,
        bound: BoundWorkload,
        *,
        rng: np.random.Generator,
        comparers: Mapping[torch.dtype, RowComparison] | None = None,
    ) -> None:
        self._bound = bound
        self._comparers = comparers or {}
        self._rng = rng
        self._expected = bound.tolerance(bound.workload.distribution)
        self._wrote = bound.all_outputs(bound.sets)
        self.kept = [torch.empty(out.shape, dtype=out.dtype, device=out.device) for out in self._wrote]
        self._spared = torch.zeros(_SPARED, dtype=torch.int64, device=bound.device)
        self._patterns = bound.patterns()
        self._replays: dict[str, Callable[[], Array]] = {}

    def draw(self, spared: Sequence[int]) -> None:
        """Choose the copies outside the coming batch that are checked after it."""
        self._spared.copy_(torch.from_numpy(self._rng.choice(spared, _SPARED)), non_blocking=True)

    def keep(self) -> None:
        """Queue a copy of all outputs to private memory, which the next call overwrites."""
        for kept, out in zip(self.kept, self._wrote, strict=True):
            bits(kept).copy_(bits(out))  # torch would make truth values of the bytes of bool

    def alike(self, *, candidate_kept: bool) -> Array:
        """Queue the comparison; return one truth value for each copy, on the device, valid until the next call.

        `candidate_kept`: the kept outputs are the candidate's; the baseline's lie in the buffers. Otherwise the
        reverse.
        """
        mine, theirs = (self.kept, self._wrote) if candidate_kept else (self._wrote, self.kept)
        return self._replayed("kept" if candidate_kept else "written", lambda: self._compare(mine, theirs))

    def left_alone(self) -> Array:
        """Queue the check of copies without a call: one truth value, valid until the next call."""
        return self._replayed("alone", self._untouched)

    def _replayed(self, name: str, work: Work) -> Array:
        if self._bound.device == "cpu":
            return work()
        if name not in self._replays:
            self._replays[name] = _captured(work)
        return self._replays[name]()

    def _compare(self, actual: Sequence[Array], due: Sequence[Array]) -> Array:
        sets = self._bound.sets
        alike = torch.ones(sets, dtype=torch.bool, device=self._spared.device)
        for output, wrote, other in zip(self._expected.outputs, actual, due, strict=True):
            mine, theirs = wrote.view(sets, -1), other.view(sets, -1)
            comparer = self._comparers.get(mine.dtype)
            if comparer is None or output.may_differ:
                alike &= rows_alike(output, mine, theirs)
            else:
                limits = timed_limits(output)
                rows = comparer.rows(mine, theirs, peak=limits.peak)
                alike &= rows_right(output, error=rows.error, due=rows.due, worst=rows.worst)
        return alike

    def _untouched(self) -> Array:
        found = [torch.ones(1, dtype=torch.bool, device=self._spared.device)]
        for name, pattern in self._patterns.items():
            some = bits(self._bound.copies(name)).index_select(0, self._spared)
            found.append((some == pattern).all().reshape(1))
        return torch.cat(found).all().reshape(1)


class OutputComparisons:
    """One comparison for each workload, the same for all candidates while it has the same buffers."""

    def __init__(self, *, rng: np.random.Generator, comparers: Mapping[torch.dtype, RowComparison]) -> None:
        self._rng = rng
        self._comparers = comparers
        self._known: dict[BoundWorkload, tuple[str, OutputComparison]] = {}

    def of(self, bound: BoundWorkload) -> OutputComparison:
        """Return the comparison of a workload."""
        known = self._known.get(bound)
        if known is None or known[0] != bound.name:
            comparison = OutputComparison(bound, rng=self._rng, comparers=self._comparers)
            known = self._known[bound] = (bound.name, comparison)
        return known[1]


def _captured(work: Work) -> Callable[[], Array]:
    """Return a function that replays fixed operations; its result is always in the same memory."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # the set-up of a first call cannot be captured
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = work()

    def replay() -> Array:
        graph.replay()
        return answer

    return replay

"""Alarms of a baseline that pays for what a candidate does outside its own batches.

A candidate that gives the baseline page faults, or evicts what it needs, looks faster than it is. Such a baseline is
slower beside this candidate than alone, whatever the trick. Then its times alone count, which the trick does not reach.
Slow alone proves nothing: while a slow kernel runs, other programs may fill the caches.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

DISTURBED = "the baseline has page faults beside this kernel and not without it"
_SLOWED = 1.25
"""A baseline that takes so many times as long as without the candidate may be disturbed. On two idle cores of a virtual
Intel Xeon it takes 1.00 times as long before honest kernels, and 1.04 times as long after them; where both cores are
busy with other programs, up to 1.4 times as long after a kernel that runs for 25 ms.
"""
_FREE_FAULTS, _FAULTS_OF_A_NS = 16, 4e-6
"""Page faults that a batch may have beyond the usual ones: some, and so many for each ns that it takes: 1 % of it."""
_ALARMING, _ALARMING_BATCHES = 0.2, 2
"""More than this part of the batches, and so many at least, cost more than usual: an estimate trims as many."""
_PARTS = 0.75
"""More than this part of the pairs must show it."""
_FEWEST_PAIRS = 4
"""Fewer pairs in one order prove nothing."""


@dataclass(frozen=True, slots=True)
class BatchUsage:
    """Time and page faults of a baseline's batch."""

    batch_ns: float
    """Its time as it counts in a speed-up, in ns."""
    faults: int = 0
    """Its page faults."""

    def is_slow(self, due: "BatchUsage") -> bool:
        """Say whether the time is far beyond what is due."""
        return self.batch_ns > _SLOWED * due.batch_ns

    def is_faulty(self, due: "BatchUsage") -> bool:
        """Say whether the page faults are far beyond what is due."""
        return self.faults > due.faults + _FREE_FAULTS + _FAULTS_OF_A_NS * due.batch_ns


class BaselineWatch:
    """The usage of a baseline's timed batches beside one candidate.

    It compares them with the usual ones at first. Those are of another time, when the machine may have been less busy.
    So an alarm only means that the candidate is measured anew, in pairs: each batch is followed by one of the baseline
    alone, which the candidate cannot foresee, and whose time counts. Page faults that the pairs show are its doing.

    Args:
        usual: the usage of such batches before there was any candidate; zero where it is not known.
    """

    def __init__(self, usual: BatchUsage) -> None:
        self.pairs_up = not usual.batch_ns
        self._usual = usual
        self._beside: dict[bool, list[BatchUsage]] = {False: [], True: []}
        self._alone: dict[bool, list[BatchUsage]] = {False: [], True: []}

    @property
    def wants_pairs(self) -> bool:
        """True where the measurement has pairs, and too few to decide."""
        return self.pairs_up and min(map(len, self._alone.values())) < _FEWEST_PAIRS

    def add(self, usage: BatchUsage, *, candidate_first: bool) -> None:
        """Note one batch, and whether the candidate ran before it, or after."""
        self._beside[candidate_first].append(usage)

    def add_alone(self, usage: BatchUsage, *, candidate_first: bool) -> None:
        """Note the batch that followed it, the same but for the candidate."""
        self._alone[candidate_first].append(usage)

    def forget(self) -> None:
        """Discard all batches."""
        for batches in (*self._beside.values(), *self._alone.values()):
            batches.clear()

    def alarms(self) -> bool:
        """Say whether a measurement without pairs must be made anew with them, as the next one will be."""
        if self.pairs_up:
            return False
        usual = itertools.repeat(self._usual)
        self.pairs_up = any(
            _most(batches, usual, exceed, part=_ALARMING, least=_ALARMING_BATCHES)
            for batches in self._beside.values()
            for exceed in (BatchUsage.is_slow, BatchUsage.is_faulty)
        )
        return self.pairs_up

    def convicts(self) -> bool:
        """Say whether the pairs show page faults that the candidate causes."""
        return any(
            _most(self._beside[order], self._alone[order], BatchUsage.is_faulty, part=_PARTS) for order in (False, True)
        )


def _most(
    batches: Sequence[BatchUsage],
    due: Iterable[BatchUsage],
    exceed: Callable[[BatchUsage, BatchUsage], bool],
    *,
    part: float,
    least: int = 0,
) -> bool:
    """Say whether more than a part of the pairs exceed what is due, and at least so many."""
    found = [exceed(batch, other) for batch, other in zip(batches, due, strict=False)]
    return sum(found) > part * len(found) and sum(found) >= least

"""The state of all islands as plain values: what a disposable snapshot holds, so that a long run is opened quickly.

Kernels are named by the seq of the result that made them; whoever restores an image brings them from the store. What
an image leaves out is lost, so every field of `Memory`, `Island` and `Archipelago` that a fold changes is here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evokernel.records.fitness import Elite
from evokernel.records.llm import KnownInsight
from evokernel.records.step import Attempt, Failure, OperatorRecord, Sibling

Find = Callable[[int], Elite]
"""Returns the elite that a result has made."""


@dataclass(frozen=True, slots=True)
class FailuresSnapshot:
    """Failures, oldest first, and those that something is on its way for."""

    failures: tuple[Failure, ...]
    taken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """What `Memory` holds; `known` are ids of 16 digits, one after the other, and kernels are named by seq."""

    known: str
    elites: tuple[int, ...]
    variants: tuple[tuple[str, tuple[int, ...]], ...]
    siblings: tuple[tuple[str, tuple[Sibling, ...]], ...]
    tried: tuple[tuple[str, tuple[str, ...]], ...]
    exhausted: tuple[tuple[str, ...], ...]
    trials: tuple[tuple[str, int], ...]
    barred: tuple[str, ...]
    best: int | None
    attempts: tuple[Attempt, ...]
    broken: FailuresSnapshot
    insights: tuple[KnownInsight, ...]
    hints: tuple[tuple[str, str], ...]
    pinned: tuple[str, ...]
    accounts: tuple[tuple[str, str, OperatorRecord], ...]
    chances: Mapping[str, int]
    gains: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IslandSnapshot:
    """What `Island` holds; `best` is None where nothing was taken in yet."""

    elites: tuple[int, ...]
    best: float | None
    stale: int
    picks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArchipelagoSnapshot:
    """What `Archipelago` holds."""

    results: int
    memory: HistorySnapshot
    islands: Mapping[str, IslandSnapshot]

    def seqs(self) -> set[int]:
        """Return the seqs of all results whose elites are needed to restore this."""
        return set(self._seqs())

    def _seqs(self) -> Iterator[int]:
        yield from self.memory.elites
        for _, variants in self.memory.variants:
            yield from variants
        for island in self.islands.values():
            yield from island.elites
        if self.memory.best is not None:
            yield self.memory.best

"""Insights that are kept while they pay: strategies to implement, diagnoses, lessons of an island."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from evokernel.records.llm import Insight, InsightKind, KnownInsight

LESSON_TRIALS = 5
"""Number of latest users of a lesson; prompts drop it where none of them beat its parent."""
STRATEGY_TRIES = 3
"""Number of kernels made by a strategy after which it is dropped where none beat its parent."""
LESSONS_SHOWN = 3


@dataclass(slots=True)
class Insights:
    """Every insight of a run, with the gains of its users."""

    all: dict[int, KnownInsight] = field(default_factory=dict)
    """By seq."""

    def add(self, seq: int, insight: Insight, *, island: str) -> None:
        """Take in a new insight."""
        self.all[seq] = KnownInsight(seq, island, insight)

    def used(self, seqs: Iterable[int], gain: float | None) -> None:
        """Note the gain of a candidate over its first parent (a natural logarithm; None: it failed)."""
        for seq in seqs:
            if seq in self.all:
                known = self.all[seq]
                self.all[seq] = replace(known, gains=(*known.gains, gain))

    def strategies(self, island: str) -> list[KnownInsight]:
        """Return the strategies of an island worth another try, the untried first, then those that gained most."""
        found = [
            known
            for known in self._of(InsightKind.STRATEGY, island)
            if len(known.gains) < STRATEGY_TRIES or best_gain(known) > 0
        ]
        return sorted(found, key=lambda known: (bool(known.gains), -best_gain(known), -known.seq))

    def all_strategies(self, island: str) -> Sequence[KnownInsight]:
        """Return the strategies of an island, those that were dropped among them."""
        return self._of(InsightKind.STRATEGY, island)

    def open_strategies(self, island: str) -> list[KnownInsight]:
        """Return the strategies of an island that no kernel has gained by yet."""
        return [known for known in self.strategies(island) if best_gain(known) <= 0]

    def for_parent(self, island: str, candidate: str) -> list[KnownInsight]:
        """Return the insights for a parent: its newest diagnosis, and the island's newest lessons that hold."""
        diagnoses = [k for k in self.all.values() if k.insight.kind is InsightKind.DIAGNOSIS]
        own = [known for known in diagnoses if known.insight.candidate == candidate]
        lessons = [known for known in self._of(InsightKind.LESSON, island) if holds(known)]
        return [*own[-1:], *lessons[-LESSONS_SHOWN:]]

    def _of(self, kind: InsightKind, island: str) -> Sequence[KnownInsight]:
        return [known for known in self.all.values() if known.insight.kind is kind and known.island in (island, "*")]


def best_gain(known: KnownInsight) -> float:
    """Return the highest gain of a user of an insight, 0 without any."""
    return max((gain for gain in known.gains if gain is not None), default=0.0)


def holds(known: KnownInsight) -> bool:
    """Say whether measured gains still support a lesson, or it is too young to tell."""
    latest = known.gains[-LESSON_TRIALS:]
    return len(latest) < LESSON_TRIALS or any(gain is not None and gain > 0 for gain in latest)

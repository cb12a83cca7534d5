"""State of all islands together."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from evokernel.records.fitness import Elite
from islands.history import History
from islands.island import Population


@dataclass(slots=True)
class ArchipelagoState:
    """Populations and the history of all islands."""

    populations: dict[str, Population]
    """By name of the island."""
    results: int = 0
    """Number of results taken in; schedules depend on it."""
    history: History = field(default_factory=History)
    """All that was tried."""

    def elites(self, *, but: str = "") -> Iterator[Elite]:
        """Return the elites of every island but one, island by island."""
        return (elite for name, each in self.populations.items() if name != but for elite in each.elites)

    def expendable(self, name: str) -> bool:
        """Say whether an island is of the weaker half, and is the fastest on no workload: a restart loses no leader."""
        ranked = sorted(self.populations, key=lambda each: (self.populations[each].best, -self.populations[each].stale))
        others = [each for other, each in self.populations.items() if other != name]
        return name in ranked[: len(ranked) // 2] and all(
            any(each.speed_on(workload) >= champion.workloads[workload] for each in others)
            for workload, champion in self.populations[name].champions.items()
        )

    def bar(self, program_hash: str) -> None:
        """Remove a program from every population: it did not hold when it was measured anew."""
        self.history.bar(program_hash)
        for population in self.populations.values():
            population.bar(program_hash)

    def prune(self) -> None:
        """Drop history that no later step needs."""
        held = (elite for each in self.populations.values() for elite in each.held)
        self.history.prune({elite.candidate.id for elite in held})
        for population in self.populations.values():
            kept = {name: count for name, count in population.picks.items() if name in self.history.elites}
            population.picks = Counter(kept)

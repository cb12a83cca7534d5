"""One island: the policies of a population, and the population itself."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.protocols import Archive, Chooser, Selector
from evokernel.records.fitness import Elite
from islands.operator_choosers import ByShares
from islands.references import EliteRef


@dataclass(slots=True)
class Population:
    """State of one island."""

    elites: list[EliteRef] = field(default_factory=list)
    """Elites of the archive, in its order."""
    champions: dict[str, EliteRef] = field(default_factory=dict)
    """By search workload, the fastest right candidate that came here; a niche may have lost it to another."""
    stale: int = 0
    """Results since the best elite improved."""
    picks: Counter[str] = field(default_factory=Counter)
    """How often each candidate was a parent here, by its id."""

    @property
    def best(self) -> float:
        """The fitness of the best elite; minus infinity without one."""
        return max((elite.fitness.value for elite in self.elites), default=float("-inf"))

    @property
    def held(self) -> list[Elite]:
        """The elites, and then the champions that are not among them."""
        return list({each.candidate.id: each for each in (*self.elites, *self.champions.values())}.values())

    def bar(self, program_hash: str) -> None:
        """Remove a program. The fastest of those that are still held take its place as champions."""
        held = [each for each in self.held if each.program_hash != program_hash]
        self.elites = [elite for elite in self.elites if elite.program_hash != program_hash]
        self.champions = {}
        for elite in sorted(held, key=lambda each: each.seq):
            self.crown(elite)

    def speed_on(self, workload: str) -> float:
        """Return the champion's logarithm of the speed-up on a workload; minus infinity without one."""
        champion = self.champions.get(workload)
        return champion.workloads[workload] if champion else float("-inf")

    def crown(self, elite: Elite) -> None:
        """Make an elite the champion of each workload where it is the fastest; of equals the older stays."""
        for workload, speed in elite.workloads.items():
            if speed > self.speed_on(workload):
                self.champions[workload] = elite


@dataclass(frozen=True, slots=True)
class Island:
    """Policies of one island."""

    name: str
    """The name of the island."""
    operators: Mapping[str, float]
    """Shares of the operators, by name."""
    archive: Archive
    """Rule by which elites are kept."""
    selector: Selector
    """Rule by which parents are picked."""
    chooser: Chooser = field(default_factory=ByShares)
    """Rule by which operators are ordered for a step."""

    def parents(self, population: Population) -> list[Elite]:
        """Return the elites that the selector picks among: champions are with them where it looks at workloads."""
        return population.held if getattr(self.selector, "by_workload", False) else list(population.elites)

    def take(self, elite: Elite, population: Population) -> bool:
        """Offer an elite to the archive; say whether it became the best of the population."""
        before = population.best
        population.crown(elite)
        self.archive.add(elite, population.elites)
        if elite.fitness.value <= before:
            return False
        population.stale = 0
        return True

    def restart(self, population: Population, *, survivor: Elite) -> None:
        """Empty the population and go on from one survivor."""
        population.elites.clear()
        population.champions.clear()
        population.picks.clear()
        self.take(survivor, population)

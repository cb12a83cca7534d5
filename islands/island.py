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
    stale: int = 0
    """Results since the best elite improved."""
    picks: Counter[str] = field(default_factory=Counter)
    """How often each candidate was a parent here, by its id."""

    @property
    def best(self) -> float:
        """The fitness of the best elite; minus infinity without one."""
        return max((elite.fitness.value for elite in self.elites), default=float("-inf"))


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

    def take(self, elite: Elite, population: Population) -> bool:
        """Offer an elite to the archive; say whether it became the best of the population."""
        before = population.best
        self.archive.add(elite, population.elites)
        if elite.fitness.value <= before:
            return False
        population.stale = 0
        return True

    def restart(self, population: Population, *, survivor: Elite) -> None:
        """Empty the population and go on from one survivor."""
        population.elites.clear()
        population.picks.clear()
        self.take(survivor, population)

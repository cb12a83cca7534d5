"""Archipelago: all islands with their schedules, and the effects of a result.

The state is a fold over committed results in seq order, free of I/O: a replay of the store gives the state of the live
run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.protocols import Operator, asks_model
from evokernel.records.evaluation import Status
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import StepResult
from evokernel.rng import stream
from islands.island import Island, Population
from islands.state import ArchipelagoState
from islands.step_selection import StepSelector
from islands.topology import Graph

EVERYWHERE = "*"
PRUNE_EVERY = 512
"""Results between two prunings of the history."""
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class ArchipelagoSettings:
    """Settings common to all islands."""

    migrate_every: int
    """Results between two migrations."""
    migrate_count: int = 1
    """Elites sent along each edge."""
    plans: str = "newest"
    """Rule for the next strategy to implement."""
    reset_after: int | None = None
    """Results of an island without a better elite after which it starts again; None for never."""
    repairs: int = 0
    """How often a failed candidate of a model, or its repair, is given back."""
    foreign: bool = False
    """True where the task has kernels in other languages."""
    device_usd_per_hour: float = 0.0
    """The price of an hour of the device, for operators chosen by gain and cost."""


class Archipelago:
    """Islands, their topology and schedules. It holds no state: methods take the state that they work on.

    Args:
        graph: an edge from each island to the receivers of its elites.
        operators: by name, every operator an island may use.
    """

    def __init__(
        self,
        islands: Sequence[Island],
        graph: Graph,
        *,
        operators: Mapping[str, Operator],
        seed: int,
        rules: ArchipelagoSettings,
        models: Callable[[str, str], Mapping[str, float]] = lambda island, role: {},
    ) -> None:
        self.islands = {island.name: island for island in islands}
        self.operators = operators
        self.selector = StepSelector(
            self.islands,
            operators=operators,
            seed=seed,
            repairs=rules.repairs,
            foreign=rules.foreign,
            models=models,
            plans=rules.plans,
        )
        self._graph = graph
        self._seed = seed
        self._rules = rules

    def fresh(self) -> ArchipelagoState:
        """Return the state before the first result."""
        return ArchipelagoState({name: Population() for name in self.islands})

    def asks_model(self, name: str) -> bool:
        """Say whether a name is that of an operator that asks a model."""
        return name in self.operators and asks_model(self.operators[name])

    def tell(self, outcome: StepResult, state: ArchipelagoState) -> list[Notice]:
        """Take in one committed result; return notices for people."""
        elite = state.history.learn(outcome, device_usd_per_s=self._rules.device_usd_per_hour / SECONDS_PER_HOUR)
        state.results += 1
        notes: list[Notice] = []
        if outcome.evaluation is not None and outcome.evaluation.status is Status.HARNESS_ERROR:
            return notes
        targets = [self.islands[outcome.island]] if outcome.island in self.islands else list(self.islands.values())
        for island in targets:
            population = state.populations[island.name]
            for parent in outcome.parents[:1]:
                population.picks[parent] += 1
            if elite is None or not island.take(elite, population):
                population.stale += 1
            stagnant = self._rules.reset_after and population.stale >= self._rules.reset_after
            if stagnant and state.expendable(island.name):
                notes += self._restart(island, state, outcome=outcome)
        if state.results % PRUNE_EVERY == 0:
            state.prune()
        if state.results % self._rules.migrate_every == 0:
            taken = migrate(self.islands, state.populations, graph=self._graph, count=self._rules.migrate_count)
            text = f"migration: {taken} elites settled on other islands"
            notes += [Notice(text, kind=RemarkKind.MIGRATION, step=outcome.step)] if taken else []
        return notes

    def _restart(self, island: Island, state: ArchipelagoState, *, outcome: StepResult) -> list[Notice]:
        population = state.populations[island.name]
        others = {elite.candidate.id: elite for elite in state.elites(but=island.name)}
        survivors = sorted(others.values(), key=lambda e: (-e.fitness.value, e.seq))
        if not survivors:
            population.stale = 0
            return []
        rng = stream(self._seed, outcome.seq, f"restart {island.name}")
        survivor = survivors[int(rng.integers(min(3, len(survivors))))]
        island.restart(population, survivor=survivor)
        name = survivor.candidate.id
        text = f"island {island.name} was stagnant and starts again from {name}"
        return [Notice(text, kind=RemarkKind.RESET, step=outcome.step, candidate=name)]


def migrate(islands: Mapping[str, Island], populations: Mapping[str, Population], *, graph: Graph, count: int) -> int:
    """Send `count` elites along every edge; return how many an archive took. All leave before any arrive."""
    migrants = {
        name: sorted(population.elites, key=lambda e: (-e.fitness.value, e.seq))[:count]
        for name, population in populations.items()
    }
    taken = 0
    for source, target in sorted(graph.edges):
        population = populations[target]
        for elite in migrants[source]:
            if elite in population.elites:
                continue
            islands[target].take(elite, population)
            if elite in population.elites:
                taken += 1
    return taken

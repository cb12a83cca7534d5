"""Choice of parents on one island at one step."""

import itertools
from dataclasses import dataclass

import numpy as np

from evokernel.protocols import Crossover, Operator, is_crossover
from evokernel.records.fitness import Elite
from evokernel.records.step import OperatorKind
from evokernel.source.tunables import read_tunables
from islands.assignment import BY_RANK
from islands.island import Island
from islands.state import ArchipelagoState

YOUNG_SHARE = 0.5
PINNED_SHARE = 0.5
MATCHES = 32
"""Partners are looked for among so many of the best."""


@dataclass(frozen=True, slots=True)
class ParentChoice:
    """Choice of parents from the state, which it only reads."""

    island: Island
    state: ArchipelagoState
    rng: np.random.Generator

    def at_hand(self) -> list[Elite]:
        """Return the elites of the island, and what people have pinned, wherever it lives."""
        history = self.state.history
        own = list(self.state.populations[self.island.name].elites)
        pinned = [history.elites[name] for name in history.pinned if name in history.elites]
        return own + [elite for elite in pinned if elite not in own] if own else []

    def first(self, elites: list[Elite]) -> Elite:
        """Return the first parent: often what a person has pinned, else as the island picks."""
        marked = self.state.history.pinned
        pinned = [elite for elite in elites if elite.candidate.id in marked] if marked else []
        if pinned and self.rng.random() < PINNED_SHARE:
            return pinned[int(self.rng.integers(len(pinned)))]
        return self.island.selector.select(elites, self.state.populations[self.island.name].picks, self.rng)

    def parents(self, operator: Operator) -> tuple[Elite, ...]:
        """Return parents the operator has not failed on, or nothing where there are none."""
        elites = self.at_hand()
        if is_crossover(operator):
            return self._matched(elites, operator)
        tunes = operator.kind is OperatorKind.TUNER
        if tunes:
            elites = [elite for elite in elites if read_tunables(elite.candidate.source).tunables]
        if tunes and operator.parents == 1 and self.rng.random() < YOUNG_SHARE:
            young = self.state.history.young()[:1]
            elites = [elite for elite in young if self._partners(elite, operator)] or elites
        elites = self._open(elites, operator)
        if not elites:
            return ()
        first = self.first(elites)
        groups = self._partners(first, operator)
        return (first, *groups[int(self.rng.integers(len(groups)))])

    def _matched(self, elites: list[Elite], operator: Crossover) -> tuple[Elite, ...]:
        """Return a parent and another of a different skeleton, from any island, that the operator says suits it."""
        history = self.state.history
        pool = {elite.candidate.id: elite for elite in self.state.elites()}
        others = sorted(pool.values(), key=lambda e: (-e.fitness.value, e.seq))[:MATCHES]
        while elites:
            first = self.first(elites)
            suitable = [
                other
                for other in others
                if other.skeleton != first.skeleton
                and (operator.name, first.candidate.id, other.candidate.id) not in history.exhausted
                and operator.suits(first, other, known=history.proposed)
            ]
            if suitable:
                weights = BY_RANK ** np.arange(len(suitable), dtype=float)
                return (first, suitable[int(self.rng.choice(len(suitable), p=weights / weights.sum()))])
            elites = [elite for elite in elites if elite is not first]
        return ()

    def _open(self, elites: list[Elite], operator: Operator) -> list[Elite]:
        """Return the elites that an operator can still be given, alone or with partners."""
        exhausted = self.state.history.exhausted
        if operator.parents == 1:
            return [e for e in elites if (operator.name, e.candidate.id) not in exhausted] if exhausted else elites
        return [elite for elite in elites if self._partners(elite, operator)]

    def _partners(self, first: Elite, operator: Operator) -> list[tuple[Elite, ...]]:
        """Return the groups of other variants of its skeleton that an elite can be given to an operator with."""
        history = self.state.history
        if operator.parents == 1:
            return [] if (operator.name, first.candidate.id) in history.exhausted else [()]
        others = [e for e in history.variants.get(first.skeleton, ()) if e.candidate.id != first.candidate.id]
        groups = itertools.combinations(others, operator.parents - 1)
        return [
            group
            for group in groups
            if (operator.name, first.candidate.id, *(e.candidate.id for e in group)) not in history.exhausted
        ]

"""Selection of parents on one island at one step."""

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
"""Number of best elites among which a crossover looks for a partner."""
_DEAR = 4.0
"""A parent is dear whose checks took so many times as long as the shortest on its island.

Timings do not count: a precise one takes longer than a quick one, and another kernel's machine code is timed once.
"""


@dataclass(frozen=True, slots=True)
class ParentSelection:
    """Selection of parents from the state, which it does not change."""

    island: Island
    """The island that the parents are for."""
    state: ArchipelagoState
    """All populations and the history."""
    rng: np.random.Generator
    """The random stream of the step."""

    def available(self) -> list[Elite]:
        """Return the elites of the island, and pinned kernels of any island."""
        history = self.state.history
        own = self.island.parents(self.state.populations[self.island.name])
        pinned = [history.elites[name] for name in history.pinned if name in history.elites]
        return own + [elite for elite in pinned if elite not in own] if own else []

    def first(self, elites: list[Elite]) -> Elite:
        """Return the first parent: often a pinned one, else as the island picks, seldom one that is slow to check."""
        marked = self.state.history.pinned
        pinned = [elite for elite in elites if elite.candidate.id in marked] if marked else []
        if pinned and self.rng.random() < PINNED_SHARE:
            return pinned[int(self.rng.integers(len(pinned)))]
        shortest = min((elite.checked_s for elite in elites if elite.checked_s > 0), default=0.0)
        while True:
            first = self.island.selector.select(elites, self.state.populations[self.island.name].picks, self.rng)
            # children of a dear one are about as slow: each costs what many others would
            cheap = first.checked_s <= _DEAR * shortest or self.rng.random() * first.checked_s < _DEAR * shortest
            if cheap or len(elites) == 1:
                return first
            elites = [elite for elite in elites if elite is not first]

    def parents(self, operator: Operator) -> tuple[Elite, ...]:
        """Return parents for which the operator is not exhausted; empty without any."""
        elites = self.available()
        if is_crossover(operator):
            return self._matched(elites, operator)
        tunes = operator.kind is OperatorKind.TUNER
        if tunes:
            elites = [elite for elite in elites if read_tunables(elite.candidate.source).tunables]
        if tunes and operator.parents == 1 and self.rng.random() < YOUNG_SHARE:
            new = self.state.history.to_tune()[:1]
            elites = [elite for elite in new if self._partners(elite, operator)] or elites
        elites = self._not_exhausted(elites, operator)
        if not elites:
            return ()
        first = self.first(elites)
        groups = self._partners(first, operator)
        return (first, *groups[int(self.rng.integers(len(groups)))])

    def _matched(self, elites: list[Elite], operator: Crossover) -> tuple[Elite, ...]:
        """Return a parent and a partner of another skeleton, from any island, that suits the operator."""
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

    def _not_exhausted(self, elites: list[Elite], operator: Operator) -> list[Elite]:
        exhausted = self.state.history.exhausted
        if operator.parents == 1:
            return [e for e in elites if (operator.name, e.candidate.id) not in exhausted] if exhausted else elites
        return [elite for elite in elites if self._partners(elite, operator)]

    def _partners(self, first: Elite, operator: Operator) -> list[tuple[Elite, ...]]:
        """Return the groups of other variants of an elite's skeleton for which an operator is not exhausted."""
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

"""All islands together: which island, operator and parents come next, and what a result changes.

Both sides are free of I/O. `ask` is a function of (seed, step, results and proposals taken in so far), `tell` a fold
over committed results in seq order: replaying the store gives the state the live run had.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from evokernel.candidate import Proposal
from evokernel.evaluation import Status
from evokernel.fitness import Elite
from evokernel.protocols import Operator
from evokernel.rng import stream
from evokernel.steps import Outcome, Selection
from evokernel.tunables import read_tunables
from islands.island import Island
from islands.memory import Memory
from islands.migration import migrate
from islands.topology import Graph

EVERYWHERE = "*"
YOUNG_SHARE = 0.5


class Archipelago:
    """Islands, their topology and schedules.

    Args:
        islands: the populations, in order.
        graph: who sends elites to whom.
        operators: by name, every operator an island may use.
        seed: the run's seed.
        migrate_every: results between two migrations.
        migrate_count: elites sent along each edge.
        reset_after: an island's results without a better elite after which it starts again; None for never.
    """

    def __init__(
        self,
        islands: Sequence[Island],
        graph: Graph,
        *,
        operators: Mapping[str, Operator],
        seed: int,
        migrate_every: int,
        migrate_count: int = 1,
        reset_after: int | None = None,
    ) -> None:
        self.islands = {island.name: island for island in islands}
        self.memory = Memory()
        self.results = 0
        self._graph = graph
        self._operators = operators
        self._seed = seed
        self._migrate_every = migrate_every
        self._migrate_count = migrate_count
        self._reset_after = reset_after

    def ask(self, step: int) -> Selection | None:
        """Return what to work on at this step; None when no operator has anything left to try anywhere."""
        names = list(self.islands)
        turn = step % len(names)
        for name in names[turn:] + names[:turn]:
            selection = self._ask_island(step, self.islands[name])
            if selection is not None:
                return selection
        return None

    def pending(self, proposal: Proposal) -> None:
        """Take note of a stored proposal that waits for its evaluation."""
        self.memory.propose(proposal)

    def tell(self, outcome: Outcome) -> list[str]:
        """Take in one committed result; return what a person may want to know of it."""
        elite = self.memory.learn(outcome)
        self.results += 1
        notes: list[str] = []
        if outcome.evaluation is not None and outcome.evaluation.status is Status.HARNESS_ERROR:
            return notes
        targets = [self.islands[outcome.island]] if outcome.island in self.islands else list(self.islands.values())
        for island in targets:
            island.picks.update(outcome.parents[:1])
            better = elite is not None and island.take(elite)
            island.stale += not better
            if self._reset_after and island.stale >= self._reset_after:
                notes += self._restart(island, outcome.seq)
        if self.results % self._migrate_every == 0:
            taken = migrate(self.islands, self._graph, count=self._migrate_count)
            notes += [f"migration: {taken} elites settled on other islands"] if taken else []
        return notes

    def bar(self, program_hash: str) -> None:
        """Remove a program that did not hold when it was measured anew from every population."""
        self.memory.bar(program_hash)
        for island in self.islands.values():
            for elite in island.archive.elites():
                if elite.program_hash == program_hash:
                    island.archive.remove(elite.candidate.id)
            island.best = max((e.fitness.value for e in island.archive.elites()), default=float("-inf"))

    def fingerprint(self) -> str:
        """Return a hash over the whole state: equal after a replay."""
        memory = self.memory
        parts: list[object] = [self.results, sorted(memory.known), sorted(memory.barred), sorted(memory.exhausted)]
        parts += [sorted(memory.trials.items()), sorted(memory.credit.items())]
        parts += [sorted((s, tuple(e.candidate.id for e in v)) for s, v in memory.variants.items() if v)]
        for island in self.islands.values():
            elites = [(elite.candidate.id, elite.fitness.value) for elite in island.archive.elites()]
            parts += [island.name, elites, island.best, island.stale, sorted(island.picks.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _ask_island(self, step: int, island: Island) -> Selection | None:
        if not len(island.archive):
            return None
        rng = stream(self._seed, step, f"ask {island.name}")
        names = list(island.operators)
        weights = np.array([island.operators[name] for name in names])
        for index in rng.choice(len(names), size=len(names), replace=False, p=weights / weights.sum()):
            parents = self._parents(island, self._operators[names[int(index)]], rng)
            if parents:
                return Selection(step, island.name, names[int(index)], parents)
        return None

    def _parents(self, island: Island, operator: Operator, rng: np.random.Generator) -> tuple[Elite, ...]:
        """Return parents the operator has not failed on, or nothing where there are none."""
        elites = list(island.archive.elites())
        if operator.tuner and operator.parents == 1 and rng.random() < YOUNG_SHARE:
            elites = self.memory.young()[:1] or elites
        if operator.tuner:
            elites = [elite for elite in elites if read_tunables(elite.candidate.source).tunables]
        open_to = {elite.candidate.id: self._partners(elite, operator) for elite in elites}
        elites = [elite for elite in elites if open_to[elite.candidate.id]]
        if not elites:
            return ()
        first = island.selector.select(elites, island.picks, rng)
        groups = open_to[first.candidate.id]
        return (first, *groups[int(rng.integers(len(groups)))])

    def _partners(self, first: Elite, operator: Operator) -> list[tuple[Elite, ...]]:
        """Return the groups of other variants of its skeleton that an elite can be given to an operator with."""
        others = [e for e in self.memory.variants[first.skeleton] if e.candidate.id != first.candidate.id]
        groups = itertools.combinations(others, operator.parents - 1)
        return [
            group
            for group in groups
            if (operator.name, first.candidate.id, *(e.candidate.id for e in group)) not in self.memory.exhausted
        ]

    def _restart(self, island: Island, seq: int) -> list[str]:
        others = [elite for other in self.islands.values() if other is not island for elite in other.archive.elites()]
        survivors = sorted({e.candidate.id: e for e in others}.values(), key=lambda e: (-e.fitness.value, e.seq))
        if not survivors:
            island.stale = 0
            return []
        rng = stream(self._seed, seq, f"restart {island.name}")
        survivor = survivors[int(rng.integers(min(3, len(survivors))))]
        island.restart(survivor)
        return [f"island {island.name} was stagnant and starts again from {survivor.candidate.id}"]

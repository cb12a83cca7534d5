"""All islands together: which island, operator and parents come next, and what a result changes.

Both sides are free of I/O. `ask` is a function of (seed, step, results and proposals taken in so far), `tell` a fold
over committed results in seq order: replaying the store gives the state the live run had.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from evokernel.protocols import Matchmaker, ModelOperator, Operator
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation, Status
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import ContextNeed, Selection, StepResult
from evokernel.rng import stream
from evokernel.source.tunables import read_tunables
from islands.assignment import BY_RANK, TWINS, Assignment, likeness, matter_for
from islands.history import History
from islands.image import ArchipelagoSnapshot, Find
from islands.island import Island
from islands.migration import migrate
from islands.topology import Graph

EVERYWHERE = "*"
YOUNG_SHARE = 0.5
PINNED_SHARE = 0.5
INSPIRATIONS = 3
MATCHES = 32
"""Partners are looked for among so many of the best."""
PRUNE_EVERY = 512
"""Results after which what nobody will turn to again is let go of."""


def is_thinker(operator: Operator) -> TypeGuard[ModelOperator]:
    """Say whether an operator asks a model."""
    return hasattr(operator, "wants")


def is_matchmaker(operator: Operator) -> TypeGuard[Matchmaker]:
    """Say whether an operator decides itself which parents suit each other."""
    return hasattr(operator, "suits")


@dataclass(frozen=True, slots=True)
class ArchipelagoSettings:
    """What holds for all islands together.

    Args:
        migrate_every: results between two migrations.
        migrate_count: elites sent along each edge.
        reset_after: an island's results without a better elite after which it starts again; None for never.
        repairs: how often a failed candidate of a model, and what comes of it, is given back.
        foreign: whether there are kernels for the task in other languages.
        device_usd_per_hour: what an hour of the device costs, for operators chosen by gain and cost.
    """

    migrate_every: int
    migrate_count: int = 1
    reset_after: int | None = None
    repairs: int = 0
    foreign: bool = False
    device_usd_per_hour: float = 0.0


class Archipelago:
    """Islands, their topology and schedules.

    Args:
        islands: the populations, in order.
        graph: who sends elites to whom.
        operators: by name, every operator an island may use.
        seed: the run's seed.
        rules: what holds for all of them.
    """

    def __init__(
        self,
        islands: Sequence[Island],
        graph: Graph,
        *,
        operators: Mapping[str, Operator],
        seed: int,
        rules: ArchipelagoSettings,
    ) -> None:
        self.islands = {island.name: island for island in islands}
        self.thinkers = {name: op for name, op in operators.items() if is_thinker(op)}
        self.memory = History(
            thinkers=self.thinkers, repairs=rules.repairs, device_usd_per_hour=rules.device_usd_per_hour
        )
        self.results = 0
        self._graph = graph
        self._operators = operators
        self._seed = seed
        self._rules = rules

    def ask(
        self,
        step: int,
        *,
        thinking: bool = True,
        rules: bool = True,
        names: Collection[str] = (),
        may_ask: Callable[[str, str], bool] = lambda island, role: True,
        running: Sequence[Selection] = (),
    ) -> Selection | None:
        """Return what to work on at this step; None when no operator has anything left to try anywhere.

        Args:
            step: the number of the step.
            thinking: operators that ask a model may be chosen.
            rules: the others may be.
            names: only these operators may be; all, where none is named.
            may_ask: says of an island and a role whether a model would answer.
            running: what is being thought about; a failure or a strategy among it is left to that.
        """
        islands = list(self.islands.values())
        turn = step % len(islands)
        for island in islands[turn:] + islands[:turn]:
            able = {
                operator: share
                for operator, share in island.operators.items()
                if (not names or operator in names)
                and (
                    thinking and may_ask(island.name, self.thinkers[operator].role)
                    if operator in self.thinkers
                    else rules
                )
            }
            selection = self._ask_island(step, island, able, running)
            if selection is not None:
                return selection
        return None

    def thinks(self, operator: str) -> bool:
        """Whether an operator asks a model."""
        return operator in self.thinkers

    def inspirations(self, selection: Selection) -> tuple[Elite, ...]:
        """Return good kernels of other niches and islands, each another idea, best first."""
        everywhere = [elite for island in self.islands.values() for elite in island.archive.elites()]
        shown, found = list(selection.parents), list[Elite]()
        for elite in sorted(self.memory.near(everywhere), key=lambda e: (-e.fitness.value, e.seq)):
            if len(found) < INSPIRATIONS and all(likeness(elite, other) < TWINS for other in (*shown, *found)):
                found.append(elite)
        return tuple(found)

    def pending(self, proposal: Proposal) -> None:
        """Take note of a stored proposal that waits for its evaluation."""
        self.memory.propose(proposal)

    def tell(self, outcome: StepResult) -> list[Notice]:
        """Take in one committed result; return what a person may want to know of it."""
        elite = self.memory.learn(outcome)
        self.results += 1
        notes: list[Notice] = []
        if outcome.evaluation is not None and outcome.evaluation.status is Status.HARNESS_ERROR:
            return notes
        targets = [self.islands[outcome.island]] if outcome.island in self.islands else list(self.islands.values())
        for island in targets:
            for parent in outcome.parents[:1]:
                island.picks[parent] += 1
            better = elite is not None and island.take(elite)
            island.stale += not better
            if self._rules.reset_after and island.stale >= self._rules.reset_after:
                notes += self._restart(island, outcome)
        if self.results % PRUNE_EVERY == 0:
            self._prune()
        if self.results % self._rules.migrate_every == 0:
            taken = migrate(self.islands, self._graph, count=self._rules.migrate_count)
            text = f"migration: {taken} elites settled on other islands"
            notes += [Notice(text, kind=RemarkKind.MIGRATION, step=outcome.step)] if taken else []
        return notes

    def bar(self, program_hash: str) -> None:
        """Remove a program that did not hold when it was measured anew from every population."""
        self.memory.bar(program_hash)
        for island in self.islands.values():
            for elite in island.archive.elites():
                if elite.program_hash == program_hash:
                    island.archive.remove(elite.candidate.id)
            island.best = max((e.fitness.value for e in island.archive.elites()), default=float("-inf"))

    def image(self) -> ArchipelagoSnapshot:
        """Return the whole state as plain values."""
        islands = {name: island.image() for name, island in self.islands.items()}
        return ArchipelagoSnapshot(self.results, self.memory.image(), islands)

    def restore(self, image: ArchipelagoSnapshot, *, find: Find, verdict: Callable[[int], Evaluation]) -> None:
        """Become what an image was taken of; `find` and `verdict` give the elite and the evaluation of a result."""
        self.results = image.results
        self.memory.restore(image.memory, find=find, verdict=verdict)
        for name, island in self.islands.items():
            island.restore(image.islands[name], find=find)

    def _prune(self) -> None:
        living = {e.candidate.id for island in self.islands.values() for e in island.archive.elites()}
        self.memory.prune(living)
        for island in self.islands.values():
            island.picks = Counter({n: count for n, count in island.picks.items() if n in self.memory.elites})

    def fingerprint(self) -> str:
        """Return a hash over the whole state: equal after a replay."""
        memory = self.memory
        parts: list[object] = [self.results, memory.known.text(), sorted(memory.barred), sorted(memory.exhausted)]
        parts += [sorted(memory.trials.items()), sorted(memory.credit.items())]
        parts += [sorted((s, tuple(e.candidate.id for e in v)) for s, v in memory.variants.items() if v)]
        parts += [memory.broken.fingerprint(), memory.insights.fingerprint(), memory.hints, memory.pinned]
        parts += [sorted(memory.accounts.items(), key=lambda item: item[0])]
        for island in self.islands.values():
            elites = [(elite.candidate.id, elite.fitness.value) for elite in island.archive.elites()]
            parts += [island.name, elites, island.best, island.stale, sorted(island.picks.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _ask_island(
        self, step: int, island: Island, shares: Mapping[str, float], running: Sequence[Selection]
    ) -> Selection | None:
        if not shares:
            return None
        rng = stream(self._seed, step, f"ask {island.name}")
        accounts = {name: account for (own, name), account in self.memory.accounts.items() if own == island.name}
        for name in island.chooser.order(shares, accounts, rng):
            if name in self.thinkers:
                matter = self._matter(island, self.thinkers[name], rng, running)
            else:
                matter = Assignment(self._parents(island, self._operators[name], rng)) if len(island.archive) else None
            if matter is not None and (matter.parents or name in self.thinkers):
                return Selection(step, island.name, name, matter.parents, matter.broken, matter.insights)
        return None

    def _matter(
        self, island: Island, operator: ModelOperator, rng: np.random.Generator, running: Sequence[Selection]
    ) -> Assignment | None:
        if ContextNeed.FOREIGN in operator.wants and not self._rules.foreign:
            return None
        elites = self.memory.near(self._at_hand(island)) or self.memory.near(list(self.memory.elites.values()))
        first = self._first(island, elites, rng) if elites else None
        return matter_for(operator, island, first, memory=self.memory, rng=rng, running=running)

    def _at_hand(self, island: Island) -> list[Elite]:
        """Return the elites of an island, and what people have pinned, wherever it lives."""
        own = list(island.archive.elites())
        pinned = [self.memory.elites[name] for name in self.memory.pinned if name in self.memory.elites]
        return own + [elite for elite in pinned if elite not in own] if own else []

    def _first(self, island: Island, elites: list[Elite], rng: np.random.Generator) -> Elite:
        """Return the first parent: often what a person has pinned, else as the island picks."""
        marked = self.memory.pinned
        pinned = [elite for elite in elites if elite.candidate.id in marked] if marked else []
        if pinned and rng.random() < PINNED_SHARE:
            return pinned[int(rng.integers(len(pinned)))]
        return island.selector.select(elites, island.picks, rng)

    def _parents(self, island: Island, operator: Operator, rng: np.random.Generator) -> tuple[Elite, ...]:
        """Return parents the operator has not failed on, or nothing where there are none."""
        elites = self._at_hand(island)
        if is_matchmaker(operator):
            return self._matched(island, elites, operator, rng)
        if operator.tuner:
            elites = [elite for elite in elites if read_tunables(elite.candidate.source).tunables]
        if operator.tuner and operator.parents == 1 and rng.random() < YOUNG_SHARE:
            elites = [elite for elite in self.memory.young()[:1] if self._partners(elite, operator)] or elites
        elites = self._open(elites, operator)
        if not elites:
            return ()
        first = self._first(island, elites, rng)
        groups = self._partners(first, operator)
        return (first, *groups[int(rng.integers(len(groups)))])

    def _matched(
        self, island: Island, elites: list[Elite], operator: Matchmaker, rng: np.random.Generator
    ) -> tuple[Elite, ...]:
        """Return a parent and another of a different skeleton, from any island, that the operator says suits it."""
        pool = {e.candidate.id: e for other in self.islands.values() for e in other.archive.elites()}
        others = sorted(pool.values(), key=lambda e: (-e.fitness.value, e.seq))[:MATCHES]
        while elites:
            first = self._first(island, elites, rng)
            suitable = [
                other
                for other in others
                if other.skeleton != first.skeleton
                and (operator.name, first.candidate.id, other.candidate.id) not in self.memory.exhausted
                and operator.suits(first, other, known=self.memory.known)
            ]
            if suitable:
                weights = BY_RANK ** np.arange(len(suitable), dtype=float)
                return (first, suitable[int(rng.choice(len(suitable), p=weights / weights.sum()))])
            elites = [elite for elite in elites if elite is not first]
        return ()

    def _open(self, elites: list[Elite], operator: Operator) -> list[Elite]:
        """Return the elites that an operator can still be given, alone or with partners."""
        exhausted = self.memory.exhausted
        if operator.parents == 1:
            return [e for e in elites if (operator.name, e.candidate.id) not in exhausted] if exhausted else elites
        return [elite for elite in elites if self._partners(elite, operator)]

    def _partners(self, first: Elite, operator: Operator) -> list[tuple[Elite, ...]]:
        """Return the groups of other variants of its skeleton that an elite can be given to an operator with."""
        if operator.parents == 1:
            return [] if (operator.name, first.candidate.id) in self.memory.exhausted else [()]
        others = [e for e in self.memory.variants[first.skeleton] if e.candidate.id != first.candidate.id]
        groups = itertools.combinations(others, operator.parents - 1)
        return [
            group
            for group in groups
            if (operator.name, first.candidate.id, *(e.candidate.id for e in group)) not in self.memory.exhausted
        ]

    def _restart(self, island: Island, outcome: StepResult) -> list[Notice]:
        others = [elite for other in self.islands.values() if other is not island for elite in other.archive.elites()]
        survivors = sorted({e.candidate.id: e for e in others}.values(), key=lambda e: (-e.fitness.value, e.seq))
        if not survivors:
            island.stale = 0
            return []
        rng = stream(self._seed, outcome.seq, f"restart {island.name}")
        survivor = survivors[int(rng.integers(min(3, len(survivors))))]
        island.restart(survivor)
        name = survivor.candidate.id
        text = f"island {island.name} was stagnant and starts again from {name}"
        return [Notice(text, kind=RemarkKind.RESET, step=outcome.step, candidate=name)]

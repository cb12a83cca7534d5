"""Work for an operator that asks a model: parents from anywhere, a failure, strategies, lessons."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evokernel.protocols import ModelOperator
from evokernel.records.fitness import Elite
from evokernel.records.llm import KnownInsight
from evokernel.records.step import ContextNeed, Failure, Selection
from islands.history import History

RUNG = 0.05
"""How much faster each parent of a ladder is than the one before, as a natural logarithm."""
TWINS = 0.7
"""From this likeness on two kernels are the same idea twice: nothing is learned from the second."""
BY_RANK = 0.7
"""How much less likely each stranger is to be a partner than the one that is next better."""
INSPIRATIONS = 3
FRESH_FAILURES = 3
"""Repairs are drawn from so many of the newest failures."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of one step, as in `evokernel.records.step.Selection`."""

    parents: tuple[Elite, ...] = ()
    failed: str = ""
    """Id of a failed candidate to repair; empty without one."""
    insights: tuple[int, ...] = ()
    """Seqs of what earlier replies left."""


def assignment_for(
    operator: ModelOperator,
    first: Elite | None,
    *,
    island: str,
    history: History,
    repairable: Sequence[Failure],
    rng: np.random.Generator,
    running: Sequence[Selection] = (),
) -> Assignment | None:
    """Return what to give an operator, or None where it lacks something.

    Args:
        operator: what will be asked.
        first: the first parent, as the island picked it; None where it has no elites.
        island: the name of the island it works for.
        history: all that was tried.
        repairable: failures that may be repaired, newest first.
        rng: for every choice here.
        running: steps at work: a failure or a strategy among them is left to them.
    """
    if ContextNeed.BROKEN in operator.needs:
        taken_ids = {selection.broken for selection in running}
        open_ones = [failure for failure in repairable if failure.candidate.id not in taken_ids][:FRESH_FAILURES]
        if not open_ones:
            return None
        name = open_ones[int(rng.integers(len(open_ones)))].candidate.id
        return Assignment(failed=name, insights=_told(history, island, name))
    if operator.parents == 0:
        return Assignment(insights=_told(history, island, ""))
    if first is None:
        return None
    strategies: tuple[int, ...] = ()
    if ContextNeed.STRATEGY in operator.needs:
        taken = {seq for selection in running for seq in selection.insights}
        waiting = history.insights.open_strategies(island)
        open_strategies = [s for s in waiting if s.seq not in taken and _promises(s, first, history=history)]
        if not open_strategies:
            return None
        strategy = open_strategies[0]
        strategies = (strategy.seq,)
        about = history.elites.get(strategy.insight.candidate, first)
        first = about if history.near([about]) else first
    elif ContextNeed.STRATEGIES in operator.needs:
        known_ones = history.insights.strategies(island)
        strategies = tuple(known.seq for known in known_ones if _promises(known, first, history=history))[:2]
    parents = _parents(operator, first, history=history, rng=rng)
    return Assignment(parents, insights=(*strategies, *_told(history, island, first.candidate.id))) if parents else None


def inspirations(elites: Iterable[Elite], parents: Sequence[Elite], *, history: History) -> tuple[Elite, ...]:
    """Return good ones of these elites, each another idea than the parents and each other, best first."""
    shown, found = list(parents), list[Elite]()
    for elite in sorted(history.near(list(elites)), key=lambda e: (-e.fitness.value, e.seq)):
        if len(found) < INSPIRATIONS and all(likeness(elite, other) < TWINS for other in (*shown, *found)):
            found.append(elite)
    return tuple(found)


def _promises(known: KnownInsight, first: Elite, *, history: History) -> bool:
    """Say whether a strategy would lead beyond a kernel: one for a far slower kernel may have been overtaken."""
    about = history.elites.get(known.insight.candidate)
    predicted = known.insight.predicted_speedup or 0.0
    if about is None or not predicted > 0:
        return True
    return about.fitness.value + math.log(predicted) > first.fitness.value


def _told(history: History, island: str, candidate: str) -> tuple[int, ...]:
    """Return what goes with the kernel that is worked on: its diagnosis, and the lessons of the island."""
    return tuple(known.seq for known in history.insights.told(island, candidate))


def _parents(operator: ModelOperator, first: Elite, *, history: History, rng: np.random.Generator) -> tuple[Elite, ...]:
    if operator.parents == 1:
        return (first,)
    if ContextNeed.LADDER in operator.needs:
        return ladder(list(history.elites.values()), first, length=operator.parents)
    others = [elite for elite in history.elites.values() if elite.skeleton != first.skeleton]
    strangers = [elite for elite in history.near(others) if likeness(elite, first) < TWINS]
    best = {elite.skeleton: elite for elite in sorted(strangers, key=lambda e: (e.fitness.value, -e.seq))}
    ranked = sorted(best.values(), key=lambda e: (-e.fitness.value, e.seq))
    if len(ranked) < operator.parents - 1:
        return ()
    weights = BY_RANK ** np.arange(len(ranked), dtype=float)
    drawn = rng.choice(len(ranked), size=operator.parents - 1, replace=False, p=weights / weights.sum())
    return (first, *(ranked[int(index)] for index in drawn))


def likeness(one: Elite, other: Elite) -> float:
    """Return the share of lines that two sources have in common, 0 to 1 (Jaccard, blank lines and indents aside)."""
    first, second = ({line.strip() for line in e.candidate.source.split("\n")} - {""} for e in (one, other))
    return len(first & second) / max(1, len(first | second))


def ladder(elites: Sequence[Elite], top: Elite, *, length: int) -> tuple[Elite, ...]:
    """Return kernels in ascending order that end with the fastest of them, each clearly faster than the one before.

    The lower rungs are spread over what there is below the top, of different skeletons where possible; nothing where
    there are fewer than two rungs.
    """
    steps: list[Elite] = []
    for elite in sorted(elites, key=lambda e: (e.fitness.value, e.seq)):
        if elite.fitness.value > top.fitness.value - RUNG:
            break
        if not steps or elite.fitness.value > steps[-1].fitness.value + RUNG:
            steps.append(elite)
    if not steps:
        return ()
    places = np.unique(np.linspace(0, len(steps) - 1, min(length - 1, len(steps))).round().astype(int))
    return (*(steps[int(place)] for place in places), top)

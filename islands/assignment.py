"""Assignment of work to operators that ask a model: parents from anywhere, a failure, strategies, lessons."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evokernel.protocols import ModelOperator
from evokernel.records.fitness import Elite
from evokernel.records.llm import KnownInsight
from evokernel.records.step import ContextNeed, Failure, Selection
from islands.history import History
from islands.plan_rank import kept_share, ranked_plans

RUNG = 0.05
"""Least log speed-up of each kernel of a ladder over the one before."""
SAME_IDEA = 0.7
"""Likeness from which two kernels count as one idea: the second teaches nothing."""
BY_RANK = 0.7
"""Ratio between the chances of a partner and of the next better one."""
INSPIRATIONS = 3
FRESH_FAILURES = 3
"""Number of the newest failures that repairs are drawn from."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Work of one step, as in `evokernel.records.step.Selection`."""

    parents: tuple[Elite, ...] = ()
    """Kernels to work on."""
    failed: str = ""
    """Id of a failed candidate to repair; empty without one."""
    insights: tuple[int, ...] = ()
    """Seqs of the insights to use."""


def assignment_for(
    operator: ModelOperator,
    first: Elite | None,
    *,
    island: str,
    history: History,
    repairable: Sequence[Failure],
    rng: np.random.Generator,
    running: Sequence[Selection] = (),
    plans: str = "newest",
) -> Assignment | None:
    """Return the work for an operator, or None where it lacks something.

    Args:
        first: the first parent, as the island picked it; None where it has no elites.
        island: the name of the island it works for.
        repairable: failures that may be repaired, newest first.
        running: steps under way; their failures and strategies are not assigned again.
        plans: the rule for the next strategy: `newest`, or one of `islands.plan_rank.RULES`.
    """
    if operator.needs & {ContextNeed.BROKEN, ContextNeed.STATE}:
        taken_ids = {selection.broken for selection in running}
        open_ones = [failure for failure in repairable if failure.candidate.id not in taken_ids]
        if name := _to_mend(operator, first, open_ones, history=history, rng=rng):
            return Assignment(failed=name, insights=_notes_on(history, island, name))
        if ContextNeed.BROKEN in operator.needs:
            return None
    if operator.parents == 0:
        return Assignment(insights=_notes_on(history, island, ""))
    if first is None:
        return None
    strategies: tuple[int, ...] = ()
    if ContextNeed.STRATEGY in operator.needs:
        taken = {seq for selection in running for seq in selection.insights}
        waiting = history.insights.open_strategies(island)
        known_ones = history.insights.all_strategies(island)
        share = 1.0 if plans == "newest" else kept_share(known_ones)
        open_strategies = [
            s for s in waiting if s.seq not in taken and _may_gain(s, first, history=history, share=share)
        ]
        if not open_strategies:
            return None
        strategy = open_strategies[0] if plans == "newest" else ranked_plans(open_strategies, known_ones, rule=plans)[0]
        strategies = (strategy.seq,)
        about = history.elites.get(strategy.insight.candidate, first)
        first = about if history.near([about]) else first
    elif ContextNeed.STRATEGIES in operator.needs:
        known_ones = history.insights.strategies(island)
        strategies = tuple(known.seq for known in known_ones if _may_gain(known, first, history=history))[:2]
    parents = _parents(operator, first, history=history, rng=rng)
    insights = (*strategies, *_notes_on(history, island, first.candidate.id))
    return Assignment(parents, insights=insights) if parents else None


def _to_mend(
    operator: ModelOperator,
    first: Elite | None,
    open_ones: Sequence[Failure],
    *,
    history: History,
    rng: np.random.Generator,
) -> str:
    """Return the id of the failure to mend, or nothing: one of the newest, or the newest one made from the parent."""
    if ContextNeed.STATE in operator.needs:
        own = (failure for failure in open_ones if first is not None and first in history.made_from(failure.parents))
        return next((failure.candidate.id for failure in own), "")
    newest = open_ones[:FRESH_FAILURES]
    return newest[int(rng.integers(len(newest)))].candidate.id if newest else ""


def inspirations(elites: Iterable[Elite], parents: Sequence[Elite], *, history: History) -> tuple[Elite, ...]:
    """Return good ones of these elites, each unlike the parents and each other, best first."""
    shown, found = list(parents), list[Elite]()
    for elite in sorted(history.near(list(elites)), key=lambda e: (-e.fitness.value, e.seq)):
        if len(found) < INSPIRATIONS and all(likeness(elite, other) < SAME_IDEA for other in (*shown, *found)):
            found.append(elite)
    return tuple(found)


def _may_gain(known: KnownInsight, first: Elite, *, history: History, share: float = 1.0) -> bool:
    """Say whether a strategy may lead beyond a kernel: one for a far slower kernel may be overtaken.

    `share` is the part of predicted gains that is believed.
    """
    about = history.elites.get(known.insight.candidate)
    predicted = known.insight.predicted_speedup or 0.0
    if about is None or not predicted > 0:
        return True
    return about.fitness.value + share * math.log(predicted) > first.fitness.value


def _notes_on(history: History, island: str, candidate: str) -> tuple[int, ...]:
    """Return the seqs of a kernel's diagnosis and of the island's lessons."""
    return tuple(known.seq for known in history.insights.for_parent(island, candidate))


def _parents(operator: ModelOperator, first: Elite, *, history: History, rng: np.random.Generator) -> tuple[Elite, ...]:
    if operator.parents == 1:
        return (first,)
    if ContextNeed.LADDER in operator.needs:
        return ladder(list(history.elites.values()), first, length=operator.parents)
    others = [elite for elite in history.elites.values() if elite.skeleton != first.skeleton]
    unlike = [elite for elite in history.near(others) if likeness(elite, first) < SAME_IDEA]
    best = {elite.skeleton: elite for elite in sorted(unlike, key=lambda e: (e.fitness.value, -e.seq))}
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
    """Return kernels in ascending order up to the fastest, each clearly faster than the one before.

    The lower rungs are spread over all kernels below the top. The result is empty where there are fewer than two rungs.
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

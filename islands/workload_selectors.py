"""Selection of a parent by each workload, not only by the mean: by deap, without its global random state."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from deap import base
from deap.tools import selection

from evokernel.records.fitness import Elite
from evokernel.source.python_file import load_file


@dataclass(frozen=True, slots=True)
class Individual:
    """An elite as deap's functions take it."""

    elite: Elite
    """The elite."""
    fitness: Any
    """Its scores, as a fitness of deap's; more is better."""


class LexicaseSelector:
    """Epsilon-lexicase selection (La Cava, Spector, Danai 2016): workloads in random order, each keeps the near best.

    Args:
        pressure: does not matter; the spread of the elites says how near is near.
        objective: a descriptor of which less is better, as one more workload; empty for none.
    """

    by_workload = True

    def __init__(self, pressure: float, objective: str = "") -> None:
        self._objective = objective
        # a copy of deap's module of selectors: it draws from a global, here replaced, that the rest never sees
        self._selection = load_file(selection.__file__, selection.__name__)

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite; `picks` does not matter."""
        self._selection.random = random.Random(int(rng.integers(2**63)))  # type: ignore[attr-defined]
        chosen: Individual = self._selection.selAutomaticEpsilonLexicase(individuals(elites, self._objective), 1)[0]
        return chosen.elite


def individuals(elites: Sequence[Elite], objective: str = "") -> list[Individual]:
    """Return elites with a score for each workload that all of them were timed on, and for the objective.

    Elites without a common workload are scored by their fitness.
    """
    common = sorted(set.intersection(*(set(elite.workloads) for elite in elites)))
    scores = [[elite.workloads[name] for name in common] or [elite.fitness.value] for elite in elites]
    if objective:
        scores = [[*each, -elite.descriptor.get(objective, 0.0)] for each, elite in zip(scores, elites, strict=True)]
    made = type("Scores", (base.Fitness,), {"weights": (1.0,) * len(scores[0])})
    return [Individual(elite, made(each)) for elite, each in zip(elites, scores, strict=True)]


WORKLOAD_SELECTORS = {"lexicase": LexicaseSelector}
"""By kind."""

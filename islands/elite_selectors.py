"""Selectors of a parent among the elites of an island."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from evokernel.records.fitness import Elite


class RankSelector:
    """Selection by rank with geometrically falling chances (Whitley 1989): `pressure` 0 is uniform, 1 the best."""

    def __init__(self, pressure: float) -> None:
        self.pressure = pressure

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite; `picks` does not matter."""
        ranked = sorted(elites, key=lambda elite: elite.fitness.value, reverse=True)
        reached = _cumulative(self.pressure, len(ranked))
        return ranked[bisect_right(reached, rng.random() * reached[-1])]


@lru_cache(maxsize=1024)
def _cumulative(pressure: float, count: int) -> tuple[float, ...]:
    """Return the cumulative chances by rank, in units of the first one's chance."""
    return tuple(np.cumsum((1.0 - pressure) ** np.arange(count, dtype=float)).tolist())


class TournamentSelector:
    """Selection of the best of a random sample; `pressure` is the share of elites in the sample."""

    def __init__(self, pressure: float) -> None:
        self.pressure = pressure

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite; `picks` does not matter."""
        size = max(1, round(self.pressure * len(elites)))
        drawn = rng.choice(len(elites), size=size, replace=False)
        return max((elites[int(index)] for index in drawn), key=lambda elite: elite.fitness.value)


class ExploreSelector:
    """Selection of seldom used parents, weighted towards the fit (as in ShinkaEvolve, Lange et al. 2025).

    The chance is proportional to exp(pressure * 10 * standardised fitness) / (1 + picks).
    """

    def __init__(self, pressure: float) -> None:
        self.pressure = pressure

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite."""
        fitness = np.array([elite.fitness.value for elite in elites])
        spread = float(fitness.std())
        standard = (fitness - fitness.max()) / spread if spread > 0 else np.zeros(len(elites))
        times = np.array([picks.get(elite.candidate.id, 0) for elite in elites], dtype=float)
        weights = np.exp(self.pressure * 10.0 * standard) / (1.0 + times)
        return elites[int(rng.choice(len(elites), p=weights / weights.sum()))]


SELECTORS = {"rank": RankSelector, "tournament": TournamentSelector, "explore": ExploreSelector}
"""Those that look at the fitness alone, by kind; `islands.workload_selectors` has the others."""

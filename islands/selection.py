"""How an island picks a parent among its elites."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from evokernel.records.fitness import Elite


class RankSelector:
    """Picks by rank with geometrically falling chances (Whitley 1989): `pressure` 0 is uniform, 1 always the best."""

    def __init__(self, pressure: float) -> None:
        self.pressure = pressure

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite; `picks` is not looked at."""
        ranked = sorted(elites, key=lambda elite: elite.fitness.value, reverse=True)
        reached = _reached(self.pressure, len(ranked))
        return ranked[bisect_right(reached, rng.random() * reached[-1])]


@lru_cache(maxsize=1024)
def _reached(pressure: float, count: int) -> tuple[float, ...]:
    """Return the sums of the chances of the first, the first two, and so on, in units of the first one's chance."""
    return tuple(np.cumsum((1.0 - pressure) ** np.arange(count, dtype=float)).tolist())


class TournamentSelector:
    """Picks the best of a few drawn at random; `pressure` is the share of the elites that compete."""

    def __init__(self, pressure: float) -> None:
        self.pressure = pressure

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: np.random.Generator) -> Elite:
        """Return one elite; `picks` is not looked at."""
        size = max(1, round(self.pressure * len(elites)))
        drawn = rng.choice(len(elites), size=size, replace=False)
        return max((elites[int(index)] for index in drawn), key=lambda elite: elite.fitness.value)


class ExploreSelector:
    """Picks what was a parent least often, weighted towards the fit (the rule of ShinkaEvolve, Lange et al. 2025).

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

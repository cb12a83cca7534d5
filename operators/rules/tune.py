"""`tune`: the next point of a skeleton's tunables, chosen by a model of its siblings' measurements.

The first points lie in the middle and spread out; then a surrogate says where an improvement is to be expected. Points
in hand count as measured where it expects them. What a point needs of a limited resource is learnt of every sibling
that says so, also of one that needed too much: what cannot fit is not proposed. Other failures count as the slowest.
A tunable that left the machine code as it was counts as idle until it changes it. Points that differ from a sibling in
idle tunables alone come last, and few of them.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evokernel.protocols import Operator
from evokernel.records.candidate import Candidate
from evokernel.records.step import Context, Draft, OperatorKind, Sibling
from evokernel.rng import stream
from evokernel.source.protected import protected_change
from evokernel.source.tunables import Tunable, TunableSpace, read_tunables, with_values
from operators.rules.surrogate import Floats, Places, Surrogate, apart, central, chance_to_fit, levels

Values = Mapping[str, int]

LONGEST_LIST = 1024
FIRST = 3
"""Points that are spread out before a model is asked."""
MODELLED = 128
"""The most siblings that a model sees: the best and the latest."""
WORSE = 0.5
"""A failure counts as slower than every success by so much, as a natural logarithm."""
UNLIKELY = 0.01
"""A point with a smaller chance to fit is not proposed."""
AGAIN = 0.1
"""Chance of a parent whose other points are all measured that one is proposed whose machine code should be known."""


class Tune(Operator):
    """Choice of the most promising unmeasured point of the parent's tunable space."""

    name = "tune"
    parents = 1
    kind = OperatorKind.TUNER

    async def propose(self, context: Context) -> Draft | None:
        """Return the most promising unmeasured point that may fit, or None when there is none."""
        parent = context.parents[0]
        space = read_tunables(parent.candidate.source)
        rng = stream(context.seed, context.step, "tune")
        weighed = _weigh(KnownPoints(space, context.siblings, context.in_hand), rng)
        for index in np.lexsort((-weighed.scores, weighed.again)):
            values = values_at(space, weighed.points[index])
            source = with_values(parent.candidate.source, values)
            if protected_change(parent.candidate.source, source):
                continue
            if weighed.again[index] and rng.random() >= AGAIN:
                return None
            if Candidate(source, context.language).id not in context.known:
                gain = None if weighed.fitness is None else weighed.fitness[index] - parent.fitness.value
                return Draft(
                    source=source,
                    parents=(parent.candidate.id,),
                    rationale=f"tune: {describe_change(space.values, values)}",
                    predicted_speedup=None if gain is None else float(np.exp(gain)),
                )
        return None


def describe_change(before: Values, after: Values) -> str:
    """Return `NAME old -> new` for every value that differs."""
    return ", ".join(f"{name} {before[name]} -> {value}" for name, value in after.items() if before[name] != value)


def values_at(space: TunableSpace, point: Places) -> dict[str, int]:
    """Return the values at the places of a point."""
    return {t.name: t.choices[place] for t, place in zip(space.tunables, point.tolist(), strict=True)}


@dataclass(frozen=True)
class _Weighed:
    """Points to propose."""

    points: Places
    """Places of their values, shape (points, tunables)."""
    scores: Floats
    """The higher the better."""
    again: NDArray[np.bool_]
    """A sibling has the same machine code, as far as is known: such points come last."""
    fitness: Floats | None = None
    """The fitness that is expected; None before a model is asked."""


class KnownPoints:
    """The points of a space that are measured or wait, by the places of their values."""

    def __init__(self, space: TunableSpace, siblings: Sequence[Sibling], in_hand: Sequence[Values]) -> None:
        self.space = space
        self.positions = [levels(tunable.choices) for tunable in space.tunables]
        self._places = [{choice: place for place, choice in enumerate(t.choices)} for t in space.tunables]
        self.siblings = [sibling for sibling in siblings if self._lists(sibling.values)]
        self.in_hand = self.places([values for values in in_hand if self._lists(values)])
        self.seen = self.places([sibling.values for sibling in self.siblings])
        fitting = {name for sibling in self.siblings if not sibling.limits for name in sibling.needs}
        named = [item for sibling in self.siblings for item in sibling.limits.items()]
        # failures alone do not say where they end, so a resource is modelled once something that fits names its need
        self._limits = {name: limit for name, limit in named if name in fitting}

    def _lists(self, values: Values) -> bool:
        return values.keys() == self.space.values.keys() and all(
            values[t.name] in places for t, places in zip(self.space.tunables, self._places, strict=True)
        )

    def places(self, points: Sequence[Values]) -> Places:
        """Return the place of every value among its choices, shape (len(points), tunables)."""
        named = list(zip([t.name for t in self.space.tunables], self._places, strict=True))
        rows = [[places[values[name]] for name, places in named] for values in points]
        return np.array(rows, dtype=np.intp).reshape(len(points), len(named))

    def at(self, points: Places) -> Floats:
        """Return the positions of points, 0 to 1, shape (len(points), tunables)."""
        columns = [positions[points[:, index]] for index, positions in enumerate(self.positions)]
        return np.column_stack(columns) if columns else np.zeros(points.shape)

    def free(self, rng: np.random.Generator) -> Places:
        """Return the points that are neither measured nor in hand."""
        measured = [index for index, sibling in enumerate(self.siblings) if sibling.fitness is not None]
        best = max(measured, key=lambda index: self.siblings[index].fitness or 0.0, default=None)
        here = self.places([self.space.values])[0] if best is None else self.seen[best]
        points = sample_points(self.space, here, rng)
        taken = {*map(tuple, self.seen.tolist()), *map(tuple, self.in_hand.tolist())}
        return points[[tuple(point) not in taken for point in points.tolist()]]

    def again(self, points: Places) -> NDArray[np.bool_]:
        """Say of each point whether a sibling, or a point in hand, differs from it in idle tunables alone."""
        matter = self._matter()
        taken = {*map(tuple, np.concatenate([self.seen, self.in_hand])[:, matter].tolist())}
        return np.array([tuple(point) in taken for point in points[:, matter].tolist()], dtype=bool)

    def _matter(self) -> NDArray[np.bool_]:
        """Say of each tunable whether it may change the machine code, as far as the siblings show."""
        matter = np.ones(len(self.positions), dtype=bool)
        built = [(sibling, place) for sibling, place in zip(self.siblings, self.seen, strict=True) if sibling.code]
        first = dict[str, Places]()
        for sibling, place in built:
            if sibling.known_code and sibling.code in first:
                matter &= place == first[sibling.code]
            first.setdefault(sibling.code, place)
        while True:  # until no two that are equal in what matters have different code
            others, before = dict[tuple[int, ...], tuple[str, Places]](), matter.copy()
            for sibling, place in built:
                code, other = others.setdefault(tuple(place[before].tolist()), (sibling.code, place))
                if code != sibling.code:
                    matter |= place != other
            if (matter == before).all():
                return matter

    def chance(self, points: Places) -> Floats:
        """Return the chance of each point to fit, by the resources that a sibling had too little of."""
        chance, x = np.ones(len(points)), self.at(points)
        for name, limit in self._limits.items():
            told = [index for index, sibling in enumerate(self.siblings) if sibling.needs.get(name, 0.0) > 0]
            needs = np.array([self.siblings[index].needs[name] for index in told])
            chance *= chance_to_fit(self.at(self.seen[told]), needs, x, limit=limit)
        return chance

    def results(self) -> tuple[Places, Floats]:
        """Return places and fitness of the best and the latest siblings; a failure is worse than every success.

        One that a modelled resource explains is left out: its neighbours may be good.
        """
        told = [i for i, sibling in enumerate(self.siblings) if not sibling.limits.keys() & self._limits.keys()]
        fitness = np.array([self.siblings[index].fitness for index in told], dtype=float)  # None becomes nan
        fitness[np.isnan(fitness)] = np.nanmin(fitness) - WORSE
        if len(told) > MODELLED:
            best = np.argsort(-fitness[: -MODELLED // 2], kind="stable")[: MODELLED // 2]
            kept = [*np.sort(best), *range(len(told) - MODELLED // 2, len(told))]
            told, fitness = [told[index] for index in kept], fitness[kept]
        return self.seen[told], fitness


def _weigh(known: KnownPoints, rng: np.random.Generator) -> _Weighed:
    """Return the points that may fit with their scores."""
    points = known.free(rng)
    chance = known.chance(points)
    points, chance = points[chance >= UNLIKELY], chance[chance >= UNLIKELY]
    again = known.again(points)
    begun = len(known.siblings) + len(known.in_hand)
    measured = sum(sibling.fitness is not None for sibling in known.siblings)
    if begun <= 1:
        return _Weighed(points, central(known.at(points), rng), again)
    if begun < FIRST or measured < 2 or not len(points):
        taken = known.at(np.concatenate([known.seen, known.in_hand]))
        return _Weighed(points, chance * apart(known.at(points), taken, rng), again)
    seen, fitness = known.results()
    surrogate = Surrogate(known.positions, rng)
    gain, log_time = surrogate.improvement(seen, -fitness, known.in_hand, points)
    return _Weighed(points, chance * gain, again, -log_time)


def sample_points(space: TunableSpace, best: Places, rng: np.random.Generator) -> Places:
    """Return the places of every allowed point; of a large space, of some near the best and of a random sample."""
    sizes = np.array([len(tunable.choices) for tunable in space.tunables])
    if math.prod(sizes.tolist()) <= LONGEST_LIST:
        return _all_points(tuple(t.choices for t in space.tunables), tuple(space.values), space.constraints)
    near = np.tile(best, (LONGEST_LIST // 2, 1))
    for _ in range(2):
        rows, columns = np.arange(len(near)), rng.integers(len(sizes), size=len(near))
        near[rows, columns] = rng.integers(sizes[columns])
    drawn = rng.integers(sizes, size=(LONGEST_LIST // 4, len(sizes)))
    points = np.unique(np.concatenate([near, drawn]), axis=0)
    return points[[space.allows(values_at(space, point)) for point in points]]


@lru_cache(maxsize=16)
def _all_points(choices: tuple[tuple[int, ...], ...], names: tuple[str, ...], constraints: tuple[str, ...]) -> Places:
    space = TunableSpace(tuple(map(Tunable, names, (each[0] for each in choices), choices)), constraints)
    points = np.array(list(itertools.product(*map(range, map(len, choices)))), dtype=np.intp)
    return points[[space.allows(values_at(space, point)) for point in points]]

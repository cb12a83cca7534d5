"""`tune`: the next point of a skeleton's tunables, chosen by a model of its siblings' measurements.

A Gaussian process over the positions of the values, with an upper confidence bound (Srinivas et al. 2010), weighs
unknown points against good ones. Failed points count as worse than every measured one.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evokernel.protocols import Operator
from evokernel.records.candidate import Candidate
from evokernel.records.step import Context, Draft, OperatorKind, Sibling
from evokernel.rng import stream
from evokernel.source.tunables import TunableSpace, read_tunables, with_values

Floats = NDArray[np.float64]
Order = NDArray[np.intp]

LONGEST_LIST = 1024
LENGTH_SCALE = 0.3
NOISE = 0.01
BOLDNESS = 0.3


class Tune(Operator):
    """Choice of the most promising unmeasured point of the parent's tunable space."""

    name = "tune"
    parents = 1
    kind = OperatorKind.TUNER

    async def propose(self, context: Context) -> Draft | None:
        """Return the most promising unmeasured point, or None when all are measured."""
        parent = context.parents[0]
        space = read_tunables(parent.candidate.source)
        rng = stream(context.seed, context.step, "tune")
        points = _unmeasured(sample_points(space, _best_of(context.siblings, space.values), rng), context.siblings)
        if sum(sibling.fitness is not None for sibling in context.siblings) < 3:
            order, mean = _nearest_first(points, space.values, rng), None
        else:
            mean, deviation = predict(space, context.siblings, points)
            order = np.argsort(-(mean + BOLDNESS * deviation + 1e-9 * rng.random(len(points))))
        for index in order:
            source = with_values(parent.candidate.source, points[index])
            if Candidate(source, context.language).id not in context.known:
                return Draft(
                    source=source,
                    parents=(parent.candidate.id,),
                    rationale=f"tune: {describe_change(space.values, points[index])}",
                    predicted_speedup=None if mean is None else float(np.exp(mean[index] - parent.fitness.value)),
                )
        return None


def describe_change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return `NAME old -> new` for every value that differs."""
    return ", ".join(f"{name} {before[name]} -> {value}" for name, value in after.items() if before[name] != value)


def sample_points(space: TunableSpace, best: Mapping[str, int], rng: np.random.Generator) -> list[dict[str, int]]:
    """Return every allowed point; of a large space, a random sample and the points one or two steps from the best."""
    if math.prod(len(tunable.choices) for tunable in space.tunables) <= LONGEST_LIST:
        return list(space.points())
    drawn = [{t.name: int(rng.choice(t.choices)) for t in space.tunables} for _ in range(LONGEST_LIST // 4)]
    one = [{**best, t.name: choice} for t in space.tunables for choice in t.choices]
    two = [{**point, t.name: choice} for point in one for t in space.tunables for choice in t.choices]
    rng.shuffle(two)
    unique = {tuple(sorted(point.items())): point for point in one + two[: LONGEST_LIST // 2] + drawn}
    return [point for point in unique.values() if space.allows(point)]


def _best_of(siblings: Sequence[Sibling], here: Mapping[str, int]) -> Mapping[str, int]:
    measured = [(s.fitness, s.values) for s in siblings if s.fitness is not None and s.values.keys() == here.keys()]
    return max(measured, key=lambda item: item[0], default=(0.0, here))[1]


def predict(
    space: TunableSpace, siblings: Sequence[Sibling], points: Sequence[Mapping[str, int]]
) -> tuple[Floats, Floats]:
    """Return the expected fitness and its standard deviation at each point, both of shape (len(points),)."""
    if not points:
        return np.empty(0), np.empty(0)
    names = [tunable.name for tunable in space.tunables]
    seen = [sibling for sibling in siblings if all(name in sibling.values for name in names)]
    measured = [sibling.fitness for sibling in seen if sibling.fitness is not None]
    low, high = min(measured), max(measured)
    spread = max(high - low, 0.05)
    fitness = np.array([low - 0.5 * spread if s.fitness is None else s.fitness for s in seen])
    centre = float(fitness.mean())
    known, unknown = _positions(space, [s.values for s in seen]), _positions(space, points)
    covariance = _kernel(known, known) + NOISE * np.eye(len(seen))
    cross = _kernel(unknown, known)
    solved = np.linalg.solve(covariance, np.column_stack([(fitness - centre) / spread, cross.T]))
    mean = cross @ solved[:, 0]
    variance = np.clip(1.0 - np.einsum("ij,ji->i", cross, solved[:, 1:]), 0.0, None)
    return centre + spread * mean, spread * np.sqrt(variance)


def _positions(space: TunableSpace, points: Sequence[Mapping[str, int]]) -> Floats:
    """Return each value's place among its choices, 0 to 1; shape (len(points), tunables)."""
    columns = []
    for tunable in space.tunables:
        places = {choice: index / max(1, len(tunable.choices) - 1) for index, choice in enumerate(tunable.choices)}
        columns.append([places.get(point[tunable.name], 0.5) for point in points])
    return np.array(columns, dtype=float).T


def _kernel(a: Floats, b: Floats) -> Floats:
    """Return half an additive kernel (each tunable by itself) and half a product kernel (all of them together)."""
    distance = (a[:, None, :] - b[None, :, :]) ** 2
    single = np.exp(-0.5 * distance / LENGTH_SCALE**2)
    kernel: Floats = 0.5 * single.mean(axis=2) + 0.5 * np.exp(-0.5 * distance.sum(axis=2) / LENGTH_SCALE**2)
    return kernel


def _nearest_first(points: Sequence[Mapping[str, int]], here: Mapping[str, int], rng: np.random.Generator) -> Order:
    """Return the order of the points by how many values differ from here, at random among equals."""
    changes = [sum(here[name] != value for name, value in point.items()) for point in points]
    return np.argsort(np.array(changes) + rng.random(len(points)))


def _unmeasured(points: Sequence[dict[str, int]], siblings: Sequence[Sibling]) -> list[dict[str, int]]:
    measured = {tuple(sorted(sibling.values.items())) for sibling in siblings}
    return [point for point in points if tuple(sorted(point.items())) not in measured]

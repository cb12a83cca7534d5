"""`tune`: the next point of a skeleton's tunables, chosen by a model of what its siblings measured.

A Gaussian process over the positions of the values, with an upper confidence bound (Srinivas et al. 2010), so that it
neither walks blindly nor stays where it is. Failed points count as worse than every measured one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evokernel.candidate import Candidate
from evokernel.protocols import Context, Draft, Sibling
from evokernel.rng import stream
from evokernel.tunables import TunableSpace, read_tunables, with_values

Floats = NDArray[np.float64]

LONGEST_LIST = 4096
LENGTH_SCALE = 0.5
NOISE = 0.01
BOLDNESS = 1.0


class Tune:
    """Proposes one unmeasured point of the parent's tunable space."""

    name = "tune"
    parents = 1
    tuner = True

    async def propose(self, context: Context) -> Draft | None:
        """Return the most promising unmeasured point, or None when all are measured."""
        parent = context.parents[0]
        space = read_tunables(parent.candidate.source)
        rng = stream(context.seed, context.step, "tune")
        points = [point for point in sample_points(space, rng) if not _known(context, parent.candidate, point)]
        if not points:
            return None
        if sum(sibling.fitness is not None for sibling in context.siblings) < 3:
            point = _nearby(points, space.values, rng)
            predicted = None
        else:
            mean, deviation = predict(space, context.siblings, points)
            best = int(np.argmax(mean + BOLDNESS * deviation + 1e-9 * rng.random(len(points))))
            point = points[best]
            predicted = float(np.exp(mean[best] - parent.fitness.value))
        return Draft(
            source=with_values(parent.candidate.source, point),
            parents=(parent.candidate.id,),
            rationale=f"tune: {describe_change(space.values, point)}",
            predicted_speedup=predicted,
        )


def describe_change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return `NAME old -> new` for every value that differs."""
    return ", ".join(f"{name} {before[name]} -> {value}" for name, value in after.items() if before[name] != value)


def sample_points(space: TunableSpace, rng: np.random.Generator) -> list[dict[str, int]]:
    """Return every allowed point but this one; of a large space, a random sample and the nearest neighbours."""
    size = int(np.prod([float(len(tunable.choices)) for tunable in space.tunables]))
    if size <= LONGEST_LIST:
        return [point for point in space.points() if point != space.values]
    drawn = [{t.name: int(rng.choice(t.choices)) for t in space.tunables} for _ in range(LONGEST_LIST)]
    nearby = [{**space.values, t.name: choice} for t in space.tunables for choice in t.choices]
    unique = {tuple(sorted(point.items())): point for point in drawn + nearby if space.allows(point)}
    return [point for point in unique.values() if point != space.values]


def predict(
    space: TunableSpace, siblings: Sequence[Sibling], points: Sequence[Mapping[str, int]]
) -> tuple[Floats, Floats]:
    """Return the expected fitness and its standard deviation at each point, both of shape (len(points),)."""
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
    distance = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    kernel: Floats = np.exp(-0.5 * distance / LENGTH_SCALE**2)
    return kernel


def _nearby(points: Sequence[dict[str, int]], here: Mapping[str, int], rng: np.random.Generator) -> dict[str, int]:
    """Return one of the points that differ in the fewest values."""
    changes = [sum(here[name] != value for name, value in point.items()) for point in points]
    nearest = [point for point, count in zip(points, changes, strict=True) if count == min(changes)]
    return nearest[int(rng.integers(len(nearest)))]


def _known(context: Context, parent: Candidate, point: Mapping[str, int]) -> bool:
    return Candidate(with_values(parent.source, point), parent.language).id in context.known

"""Champions of a run by workload, and the Pareto front over its workloads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archive.store import Store
from archive.views.workload_times import TimedCandidate, timed_candidates


@dataclass(frozen=True, slots=True)
class WorkloadChampion:
    """The fastest right candidate on one search workload, by the low end of the speed-up's interval."""

    workload: str
    """Name of the workload."""
    candidate: str
    """Its id."""
    speedup: float
    """Its speed-up on the workload."""


@dataclass(frozen=True, slots=True)
class WorkloadFront:
    """The best trade-offs between the search workloads."""

    champions: tuple[WorkloadChampion, ...]
    """One for each workload, by its name."""
    candidates: tuple[str, ...]
    """The Pareto front: ids of candidates than which no other is as fast on every workload and faster on one."""
    hypervolume: float
    """Hypervolume of the front over the slowest right candidate of each workload, in natural logarithms, as a share of
    that of a kernel as fast as every champion: 1 where one kernel is the fastest on all."""


def workload_front(store: Store) -> WorkloadFront | None:
    """Return the front of a run; None without two workloads that right candidates were timed on."""
    timed = timed_candidates(store)
    names = sorted(set.intersection(*(set(each.low) for each in timed))) if timed else []
    if len(names) < 2:
        return None
    points = np.log([[each.low[name] for name in names] for each in timed])
    places = [int(place) for place in np.flatnonzero(_nondominated(points))]
    return WorkloadFront(
        tuple(_champion(name, timed) for name in names),
        tuple(timed[place].candidate for place in places),
        _share(points, places),
    )


def _champion(name: str, timed: Sequence[TimedCandidate]) -> WorkloadChampion:
    best = max(timed, key=lambda each: each.low[name])
    return WorkloadChampion(name, best.candidate, best.speedup[name])


def _nondominated(points: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> "np.ndarray":
    from moocore import is_nondominated  # deap's own; half a second that a run without results does without

    found: np.ndarray = is_nondominated(points, maximise=True)
    return found


def _share(points: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", places: Sequence[int]) -> float:
    from moocore import hypervolume

    worst, best = points.min(axis=0), points.max(axis=0)
    moved = best > worst
    if not moved.any():
        return 1.0
    volume = hypervolume(points[places][:, moved], ref=worst[moved], maximise=True)
    return float(volume / np.prod(best[moved] - worst[moved]))

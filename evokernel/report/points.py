"""Points of the charts: every candidate of a run with its time, cost, speed-up and parent, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.store import Store
from archive.views.candidate_tables import CandidateLine, candidate_lines
from archive.views.progress_axis import BYS, ProgressAxis

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate, by present knowledge."""

    candidate: str
    """Its id."""
    step: int
    operator: str
    island: str
    model: str
    """Empty for a proposal by rule."""
    rationale: str
    predicted: float | None
    """Gain that the operator predicted; None without a prediction."""
    parent: str
    """Id of the first parent; empty without one."""
    status: str
    """The newest failure, else `ok`, or `not judged`."""
    speedup: float | None
    """None where it was not timed, or any evaluation found it wrong."""
    low: float | None
    """Low end of the interval of `speedup`."""
    evaluations: int
    """Evaluations of the run up to its first result."""
    hours: float
    """Hours of the run up to its first result."""
    dollars: float
    """Dollars of the run up to its first result."""
    skeleton: str
    """The hash of its structure: its source without the values of tunables."""


def points_of(store: Store) -> list[Point]:
    """Return every candidate in the order of its result; those without a result last."""
    progress = ProgressAxis(store)
    return [_point(line, progress) for line in candidate_lines(store)]


def _point(line: CandidateLine, progress: ProgressAxis) -> Point:
    right = not line.refuted and line.speedup is not None
    used = [0.0] * len(BYS) if line.seq is None else [progress.at(line.seq, by) for by in BYS]
    return Point(
        candidate=line.candidate,
        step=line.step,
        operator=line.operator,
        island=line.island,
        model=line.model,
        rationale=line.rationale,
        predicted=line.predicted,
        parent=line.parent,
        status=line.refuted or ("ok" if right else line.said or NOT_JUDGED),
        speedup=line.speedup if right else None,
        low=line.low if right else None,
        evaluations=int(used[0]),
        hours=used[1],
        dollars=used[2],
        skeleton=line.skeleton,
    )


def leads(points: Sequence[Point], *, island: str | None = None) -> list[int]:
    """Return the positions of the points that took the lead of the run, or of an island, in order.

    The higher low end of the interval leads, as in the selection. Present knowledge counts: a kernel that was found
    wrong later never led.
    """
    found: list[int] = []
    highest = 0.0
    for position, point in enumerate(points):
        if (island is None or point.island == island) and point.low is not None and point.low > highest:
            highest = point.low
            found.append(position)
    return found


def lanes(points: Sequence[Point | CandidateLine]) -> list[float]:
    """Return a height for each point so that families stand together: a parent at the mean of its children.

    Children follow their first parents; the order of steps decides among siblings.
    """
    place = {point.candidate: position for position, point in enumerate(points)}
    children: list[list[int]] = [[] for _ in points]
    roots: list[int] = []
    for position in sorted(range(len(points)), key=lambda position: points[position].step):
        parent = place.get(points[position].parent)
        (roots if parent is None else children[parent]).append(position)
    heights, leaves = [0.0] * len(points), 0
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        position, done = waiting.pop()
        own = children[position]
        if done:
            heights[position] = sum(heights[child] for child in own) / len(own)
        elif own:
            waiting.append((position, True))
            waiting.extend((child, False) for child in reversed(own))
        else:
            heights[position] = float(leaves)
            leaves += 1
    return heights

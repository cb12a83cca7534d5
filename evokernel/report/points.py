"""Every candidate of a run in one pass: when it came, what it cost until then, what it is worth, from whom it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.candidate_tables import CandidateLine, candidate_lines
from archive.progress_axis import BYS, ProgressAxis
from archive.store import Store

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate. `evaluations`, `hours` and `dollars` are what the run had used when its first result was in.

    `speedup` and `low`, the low end of its interval, are what is known now: None for one that was not timed, or that
    any evaluation found wrong. `status` is then the newest that says so, and `not judged` while nothing does.
    """

    candidate: str
    step: int
    operator: str
    island: str
    model: str
    rationale: str
    predicted: float | None
    parent: str
    status: str
    speedup: float | None
    low: float | None
    evaluations: int
    hours: float
    dollars: float


def points_of(store: Store) -> list[Point]:
    """Return every candidate in the order of its result, those that wait for one last."""
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
    )


def leads(points: Sequence[Point], *, island: str | None = None) -> list[int]:
    """Return the positions of the points that took the lead of the run, or of an island, in order.

    The lead is taken by the higher low end of the interval, as in the selection; what is known now counts, so that
    one that was found wrong later never led.
    """
    found: list[int] = []
    highest = 0.0
    for position, point in enumerate(points):
        if (island is None or point.island == island) and point.low is not None and point.low > highest:
            highest = point.low
            found.append(position)
    return found


def lanes(points: Sequence[Point]) -> list[float]:
    """Return a height for each point so that families stand together: a leaf each, a parent amid its children.

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

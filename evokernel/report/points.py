"""Points of the charts: every candidate of a run with its time, cost, speed-up and parent, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.store import Store
from archive.views.candidate_tables import CandidateLine, candidate_lines
from archive.views.progress_axis import BYS, ProgressAxis

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Point(CandidateLine):
    """A candidate by present knowledge, with what the run had spent up to its first result.

    It has no speed-up where any evaluation found it wrong.
    """

    evaluations: int
    """Evaluations of the run by then."""
    hours: float
    """Hours of the run by then."""
    dollars: float
    """Dollars of the run by then."""

    @property
    def status(self) -> str:
        """The newest failure, else `ok`, or `not judged`."""
        return self.refuted or ("ok" if self.speedup is not None else self.said or NOT_JUDGED)


def points_of(store: Store) -> list[Point]:
    """Return every candidate in the order of its result; those without a result last."""
    progress = ProgressAxis(store)
    return [_point(line, progress) for line in candidate_lines(store)]


def _point(line: CandidateLine, progress: ProgressAxis) -> Point:
    values = {name: getattr(line, name) for name in CandidateLine.__slots__}
    if line.refuted:
        values |= {"speedup": None, "low": None}
    evaluations, hours, dollars = (0.0 if line.seq is None else progress.at(line.seq, by) for by in BYS)
    return Point(**values, evaluations=int(evaluations), hours=hours, dollars=dollars)


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

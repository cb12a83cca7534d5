"""Maps of niches: number of candidates and best candidate of each cell."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from archive.grid import GridArchive
from archive.store import Store
from archive.views.candidate_tables import descriptors_by_candidate
from evokernel.report.points import Point


@dataclass(slots=True)
class Cell:
    """One niche."""

    tried: int = 0
    """Number of right candidates in it."""
    best: int = -1
    """Position of the best one's point; -1 for an empty cell."""


@dataclass(frozen=True, slots=True)
class NicheMap:
    """The cells of islands that share their axes."""

    islands: tuple[str, ...]
    """Names."""
    axes: Mapping[str, tuple[float, ...]]
    """Lower edges of the second and later bins, by descriptor."""
    cells: dict[tuple[int, ...], Cell] = field(default_factory=dict)
    """By bin number on each axis, in the order of `axes`."""


def niche_maps(store: Store, points: Sequence[Point]) -> list[NicheMap]:
    """Return a map for each set of axes in the config; none where no config is stored.

    Candidates are placed by the descriptor of their newest right evaluation in the search. A candidate that belongs
    to no island in particular (a seed) is on every map.
    """
    maps = _empty_maps(store.meta("config") or "")
    descriptors = descriptors_by_candidate(store) if maps else {}
    for found in maps:
        grid = GridArchive(found.axes)
        for position, point in enumerate(points):
            if point.low is None or (point.island not in found.islands and point.island != "*"):
                continue
            cell = found.cells.setdefault(grid.niche(descriptors.get(point.candidate, {})), Cell())
            cell.tried += 1
            if cell.best < 0 or point.low > (points[cell.best].low or 0.0):
                cell.best = position
    return [found for found in maps if found.cells]


def _empty_maps(config: str) -> list[NicheMap]:
    try:
        read: Any = yaml.safe_load(config)
        islands = [(str(island["name"]), island["niches"]["axes"]) for island in read["islands"]]
        axes = [
            (name, {str(axis): tuple(map(float, edges)) for axis, edges in given.items()}) for name, given in islands
        ]
    except (yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError):
        return []  # a store of a test, or of another release, has nothing to draw
    sharing: dict[str, list[str]] = {}
    for name, each in axes:
        sharing.setdefault(json.dumps(each), []).append(name)
    shared = {json.dumps(each): each for _, each in axes if each}
    return [NicheMap(tuple(sharing[key]), each) for key, each in shared.items()]

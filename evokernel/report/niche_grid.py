"""Niches by two of their axes: the best speed-up in each cell, in the bins of the islands' archives."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import yaml

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.report.frame import DESCRIPTOR

if TYPE_CHECKING:
    import pandas as pd

Edges = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Right candidates by bins of two descriptors."""

    x: str
    """Descriptor of the columns."""
    y: str
    """Descriptor of the rows."""
    columns: tuple[str, ...]
    """Names of the bins of `x`."""
    rows: tuple[str, ...]
    """Names of the bins of `y`."""
    best: tuple[tuple[float, ...], ...]
    """Best speed-up by row and column; NaN where a cell is empty."""
    counts: tuple[tuple[int, ...], ...]
    """Number of right candidates by row and column."""

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest speed-up of a cell, widened by 0.1 % so that they differ."""
        found = [speedup for _, _, speedup, _ in self.cells()] or [1.0]
        return min(found) / 1.001, max(found) * 1.001

    def cells(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield row, column, best speed-up and count of each occupied cell."""
        for row, counts in enumerate(self.counts):
            for column, count in enumerate(counts):
                if count:
                    yield row, column, self.best[row][column], count


def axes(store: Store, island: str = "") -> dict[str, Edges]:
    """Return the bin edges by descriptor: of one island, or of the first that has each. Raises `StoreError`."""
    config = yaml.safe_load(store.meta("config") or "") or {}
    islands = [each for each in config.get("islands", ()) if island in ("", each["name"])]
    if not islands:
        raise StoreError(f"{store.database.path} has no island {island!r}" if island else "the run has no islands")
    found: dict[str, Edges] = {}
    for each in islands:
        for name, edges in each["niches"]["axes"].items():
            found.setdefault(name, tuple(edges))
    return found


def grid(frame: "pd.DataFrame", edges: Mapping[str, Edges], *, x: str = "", y: str = "", island: str = "") -> Grid:
    """Return the right candidates of a frame by two descriptors. Raises `StoreError` for unknown ones."""
    right = frame[frame["speedup"].notna() & (frame["status"] == "ok")]
    if island:
        right = right[right["island"] == island]
    known = {name: right[f"{DESCRIPTOR}{name}"] for name in edges if f"{DESCRIPTOR}{name}" in right}
    bins = {name: [bisect_right(edges[name], value) for value in column.fillna(0.0)] for name, column in known.items()}
    x, y = _chosen(bins, x, y)
    best = [[float("nan")] * (len(edges[x]) + 1) for _ in range(len(edges[y]) + 1)]
    counts = [[0] * (len(edges[x]) + 1) for _ in range(len(edges[y]) + 1)]
    for column, row, speedup in zip(bins[x], bins[y], right["speedup"], strict=True):
        counts[row][column] += 1
        best[row][column] = max(speedup, best[row][column]) if counts[row][column] > 1 else speedup
    return Grid(x, y, _names(edges[x]), _names(edges[y]), tuple(map(tuple, best)), tuple(map(tuple, counts)))


def _chosen(bins: Mapping[str, Sequence[int]], x: str, y: str) -> tuple[str, str]:
    for name in (x, y):
        if name and name not in bins:
            raise StoreError(f"the run has no niches by {name!r}; there are {', '.join(bins) or 'none'}")
    left = sorted(set(bins) - {x, y}, key=lambda name: (-len(set(bins[name])), name))
    if len(left) < (not x) + (not y) or (x and x == y):
        raise StoreError(f"niches are drawn by two descriptors of a run; this one has {', '.join(bins) or 'none'}")
    x = x or left.pop(0)
    return x, y or left.pop(0)


def _names(edges: Edges) -> tuple[str, ...]:
    if not edges:
        return ("any",)
    between = (f"{low:g} to {high:g}" for low, high in pairwise(edges))
    return (f"below {edges[0]:g}", *between, f"{edges[-1]:g} and up")

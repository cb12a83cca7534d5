"""One elite per cell of measured behaviour (MAP-Elites, Mouret and Clune 2015)."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from evokernel.records.fitness import Elite


def niche_of(descriptor: Mapping[str, float], axes: Mapping[str, Sequence[float]]) -> tuple[int, ...]:
    """Return the cell a descriptor falls into. A number that JSON cannot spell may be given as text."""
    return tuple(bisect_right(edges, float(descriptor.get(name, 0.0))) for name, edges in axes.items())


class GridArchive:
    """Keeps the best elite of each niche; a niche is a tuple of bin numbers over descriptor axes.

    Args:
        axes: by descriptor name, the ascending lower edges of the second and later bins. A descriptor that an elite
            lacks counts as 0.
    """

    def __init__(self, axes: Mapping[str, Sequence[float]]) -> None:
        self.axes = {name: tuple(edges) for name, edges in axes.items()}
        self._cells: dict[tuple[int, ...], Elite] = {}
        self._ordered: tuple[Elite, ...] | None = ()
        """What `elites` returns; None since the last change: it is asked for at every step and changes rarely."""

    def niche(self, descriptor: Mapping[str, float]) -> tuple[int, ...]:
        """Return the cell a descriptor falls into."""
        return niche_of(descriptor, self.axes)

    def add(self, elite: Elite) -> bool:
        """Take the elite in if its cell is empty or holds a worse one; of equals the older stays."""
        cell = self.niche(elite.descriptor)
        holder = self._cells.get(cell)
        if holder is not None and holder.fitness.value >= elite.fitness.value:
            return False
        self._cells[cell] = elite
        self._ordered = None
        return True

    def remove(self, candidate_id: str) -> None:
        """Drop a candidate if it is an elite here."""
        self._cells = {cell: elite for cell, elite in self._cells.items() if elite.candidate.id != candidate_id}
        self._ordered = None

    def elites(self) -> tuple[Elite, ...]:
        """Return all elites, ordered by cell."""
        if self._ordered is None:
            self._ordered = tuple(self._cells[cell] for cell in sorted(self._cells))
        return self._ordered

    def clear(self) -> None:
        """Forget every elite."""
        self._cells.clear()
        self._ordered = None

    def __len__(self) -> int:
        """Return the number of occupied cells."""
        return len(self._cells)

"""Grid archive: one elite per cell of measured behaviour (MAP-Elites, Mouret and Clune 2015)."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from evokernel.records.fitness import Elite


def niche_of(descriptor: Mapping[str, float], axes: Mapping[str, Sequence[float]]) -> tuple[int, ...]:
    """Return the cell a descriptor falls into. A number that JSON cannot spell may be given as text."""
    return tuple(bisect_right(edges, float(descriptor.get(name, 0.0))) for name, edges in axes.items())


class GridArchive:
    """Archive of the best elite of each niche; a niche is a tuple of bin numbers over descriptor axes.

    Args:
        axes: by descriptor name, the ascending lower edges of the second and later bins. A descriptor that an elite
            lacks counts as 0.
    """

    def __init__(self, axes: Mapping[str, Sequence[float]]) -> None:
        self.axes = {name: tuple(edges) for name, edges in axes.items()}

    def niche(self, descriptor: Mapping[str, float]) -> tuple[int, ...]:
        """Return the cell a descriptor falls into."""
        return niche_of(descriptor, self.axes)

    def add(self, elite: Elite, elites: list[Elite]) -> bool:
        """Take the elite in if its cell is empty or holds a worse one; of equals the older stays.

        `elites` holds at most one for each cell, ordered by cell.
        """
        cell = self.niche(elite.descriptor)
        place = bisect_left(elites, cell, key=lambda held: self.niche(held.descriptor))
        if place == len(elites) or self.niche(elites[place].descriptor) != cell:
            elites.insert(place, elite)
            return True
        if elites[place].fitness.value >= elite.fitness.value:
            return False
        elites[place] = elite
        return True

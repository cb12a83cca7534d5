"""Migration: each island offers copies of its best elites to its neighbours, after a fixed number of results."""

from collections.abc import Mapping

from islands.island import Island
from islands.topology import Graph


def migrate(islands: Mapping[str, Island], graph: Graph, *, count: int) -> int:
    """Exchange `count` elites along every edge; return how many an archive took. All leave before any arrive."""
    travellers = {
        name: sorted(island.archive.elites(), key=lambda e: (-e.fitness.value, e.seq))[:count]
        for name, island in islands.items()
    }
    taken = 0
    for source, target in sorted(graph.edges):
        for elite in travellers[source]:
            if elite not in islands[target].archive.elites():
                islands[target].take(elite)
                taken += elite in islands[target].archive.elites()
    return taken

"""Migration: each island offers copies of its best elites to its neighbours, after a fixed number of results."""

from collections.abc import Mapping

from islands.island import Island, Population
from islands.topology import Graph


def migrate(islands: Mapping[str, Island], populations: Mapping[str, Population], *, graph: Graph, count: int) -> int:
    """Send `count` elites along every edge; return how many an archive took. All leave before any arrive."""
    migrants = {
        name: sorted(population.elites, key=lambda e: (-e.fitness.value, e.seq))[:count]
        for name, population in populations.items()
    }
    taken = 0
    for source, target in sorted(graph.edges):
        population = populations[target]
        for elite in migrants[source]:
            if elite in population.elites:
                continue
            islands[target].take(elite, population)
            if elite in population.elites:
                taken += 1
    return taken

"""Diversity of the elites and champions of an island, measured."""

import itertools
import statistics

from evokernel.records.diversity import IslandDiversity
from islands.assignment import likeness
from islands.island import Population


def diversity_of(population: Population) -> IslandDiversity:
    """Return the measured diversity of an island."""
    held = population.held
    pairs = [likeness(one, other) for one, other in itertools.combinations(held, 2)]
    return IslandDiversity(
        niches=len(population.elites),
        skeletons=len({elite.skeleton for elite in held}),
        likeness=statistics.fmean(pairs) if pairs else None,
        spread={
            workload: statistics.pstdev(elite.workloads[workload] for elite in held if workload in elite.workloads)
            for workload in sorted(population.champions)
        },
    )

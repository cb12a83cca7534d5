"""Diversity of what an island holds."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IslandDiversity:
    """Differences between the elites and champions of an island at a moment."""

    niches: int
    """Niches with an elite."""
    skeletons: int
    """Distinct structures among elites and champions."""
    likeness: float | None
    """Mean likeness of two of them, 0 to 1: the share of lines in common; None for fewer than two."""
    spread: Mapping[str, float]
    """By workload, the standard deviation of the natural logarithm of their speed-ups."""

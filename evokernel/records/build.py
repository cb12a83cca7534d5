"""Results of a compilation."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a successful compilation."""

    artifact: bytes
    """Loadable code."""
    hash: str
    """Hash over everything that was compiled; equal for compiled duplicates."""
    descriptor: Mapping[str, float]
    """Behaviour read from the code, by name."""
    metrics: Mapping[str, float]
    """Numbers by name, with their unit in the name."""
    numbers: tuple[int, ...] = ()
    """Numbers of the machine code that sizes may be compared with; empty where they are not read."""


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Result of a failed compilation."""

    message: str
    """Feedback that an author can act on, at most about 40 lines."""
    timed_out: bool = False
    """The compiler was stopped at its time limit."""
    raised: bool = False
    """The source's own host code ended with an exception."""

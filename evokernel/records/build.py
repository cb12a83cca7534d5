"""Results of a compilation."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Built:
    """What a compiler made of a source.

    `artifact` is loadable code; `hash` is taken over what was compiled, for finding compiled duplicates;
    `descriptor` is behaviour read from it; `metrics` are numbers with their unit in the name.
    """

    artifact: bytes
    hash: str
    descriptor: Mapping[str, float]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a source did not compile; `message` is fit to act on, at most about 40 lines.

    `timed_out` after a limit; `raised` where it is the source's own host code that ended with an exception.
    """

    message: str
    timed_out: bool = False
    raised: bool = False

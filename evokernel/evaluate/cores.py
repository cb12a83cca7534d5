"""Which processor cores do what: the judge, the processes it times, the compilers."""

from collections.abc import Sequence
from dataclasses import dataclass

_RUNNERS_ON_CUDA = 2
_ENOUGH_FOR_PINNING = 4


@dataclass(frozen=True, slots=True)
class Cores:
    """Disjoint where there are enough cores. `runners` are those of candidate and baseline, one at a time."""

    judge: tuple[int, ...]
    runners: tuple[int, ...]
    engine: tuple[int, ...]
    compilers: tuple[int, ...]

    @property
    def apart(self) -> bool:
        """Whether the judge may spin on its core without taking time from what it times."""
        return not set(self.judge) & set(self.runners)


def share_out(cores: Sequence[int], *, device: str, threads: int) -> Cores:
    """Return who runs where.

    On a processor the last `threads` cores are timed on, and compilers may use all: none runs beside a clock. With a
    GPU the judge spins on a core of its own and the host side of kernels has two, so that compilers never delay a
    launch; with fewer than four cores nobody is pinned.
    """
    every = tuple(cores)
    if device == "cpu":
        rest = every[:-threads] or every
        return Cores(judge=rest, runners=every[-threads:], engine=rest, compilers=every)
    if len(every) < _ENOUGH_FOR_PINNING:
        return Cores(every, every, every, every)
    rest = every[: -1 - _RUNNERS_ON_CUDA]
    return Cores(judge=every[-1:], runners=every[-1 - _RUNNERS_ON_CUDA : -1], engine=rest, compilers=rest)

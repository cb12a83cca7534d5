"""Which processor cores do what: the judge, the processes it times, the compilers."""

from collections.abc import Sequence
from dataclasses import dataclass

RESERVED_ON_CUDA = 3
"""Cores of each GPU, where there are enough: one for its judge, two for the host side of kernels."""
_NEEDED_ON_CUDA = 4  # one of them for engine and compilers


@dataclass(frozen=True, slots=True)
class Cores:
    """Disjoint where there are enough cores. `runners` are those of candidate and baseline, one at a time."""

    judge: tuple[int, ...]
    runners: tuple[int, ...]
    engine: tuple[int, ...]
    compilers: tuple[int, ...]

    @property
    def everyone(self) -> tuple[int, ...]:
        """The cores of judge, runners and compilers: for what is done while nothing is timed."""
        return tuple(sorted({*self.judge, *self.runners, *self.compilers}))

    @property
    def apart(self) -> bool:
        """Whether the judge may spin on its core without taking time from what it times."""
        return not set(self.judge) & set(self.runners)


def share_out(
    cores: Sequence[int], *, device: str, threads: int, gpus: Sequence[int] = (0,), machine: int = 0
) -> tuple[Cores, ...]:
    """Return who runs where: one item on a processor, with GPUs one for each; `engine` and `compilers` are theirs all.

    On a processor the last `threads` cores are timed on, and compilers may use all: none runs beside a clock. With
    GPUs each judge spins on a core of its own and the host side of its kernels has two, so that compilers never delay
    a launch. Which cores these are follows from the GPU's number, and those of GPUs that are not used here are left
    alone: a search of somebody else on another GPU of the machine has them, and neither knows of the other.

    That takes four cores for each GPU of the machine; with fewer nobody is pinned and nobody spins, on any of them: a
    number must not depend on which GPU it comes from.

    Args:
        cores: those this process may run on.
        device: "cpu" or "cuda".
        threads: threads of a candidate on a processor.
        gpus: the numbers of the GPUs that are used, among those of the machine.
        machine: how many GPUs the machine has.
    """
    every = tuple(cores)
    if device == "cpu":
        rest = every[:-threads] or every
        return (Cores(judge=rest, runners=every[-threads:], engine=rest, compilers=every),)
    places = max(machine, max(gpus) + 1)
    if len(every) < _NEEDED_ON_CUDA * places:
        return len(gpus) * (Cores(every, every, every, every),)
    rest = every[: len(every) - RESERVED_ON_CUDA * places]
    own = [every[end - RESERVED_ON_CUDA : end] for end in range(len(every), len(rest), -RESERVED_ON_CUDA)]
    return tuple(Cores(own[gpu][-1:], own[gpu][:-1], engine=rest, compilers=rest) for gpu in gpus)

"""Assignment of processor cores to judge, timed processes, engine and compilers."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

RESERVED_ON_CUDA = 3
"""Cores of each GPU, where there are enough: one for its judge, two for the host side of kernels."""
_NEEDED_ON_CUDA = 4  # one of them for engine and compilers
_LEAST_ON_CUDA, MOST_PER_GPU = 4, 12
_IDLE = slice(3, 5)  # in /proc/stat: idle, and waiting for a disk


@dataclass(frozen=True, slots=True)
class Cores:
    """Numbers of cores by use; disjoint where there are enough."""

    judge: tuple[int, ...]
    """Of the judge process."""
    runners: tuple[int, ...]
    """Of candidate and baseline, one at a time."""
    engine: tuple[int, ...]
    """Of the engine."""
    compilers: tuple[int, ...]
    """Of compilers."""

    @property
    def untimed(self) -> tuple[int, ...]:
        """The cores of judge, runners and compilers: for work while nothing is timed."""
        return tuple(sorted({*self.judge, *self.runners, *self.compilers}))

    @property
    def may_spin(self) -> bool:
        """Say whether the judge may spin on its core without taking time from what it times."""
        return not set(self.judge) & set(self.runners)


def share_out(
    cores: Sequence[int], *, device: str, threads: int, gpus: Sequence[int] = (0,), machine: int = 0
) -> tuple[Cores, ...]:
    """Return the assignment of cores: one on a processor, one for each GPU; `engine` and `compilers` are shared.

    On a processor the last `threads` cores are timed on, and compilers may use all: none runs beside a clock. With GPUs
    each judge spins on a core of its own and the host side of its kernels has two, so that compilers never delay a
    launch. The GPU's number determines its cores. Cores of unused GPUs stay free, since another search on the machine
    may use them without a word to this one.

    That takes four cores for each GPU of the machine. With fewer no process is pinned and no judge spins on any GPU: a
    number must not depend on the GPU it comes from.

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


def default_in_flight(device: str, *, gpus: int = 0, cores: int | None = None) -> int:
    """Return the number of proposals in flight at once, on this machine or one with `cores` cores.

    On a processor it is the number of cores plus one, since compiling is the slow part. A GPU judges about four
    candidates a second, and a build takes about two seconds of one core. So it is the number of cores for compilers,
    at most twelve for each GPU: a proposal that waits does not know the results before it.
    """
    cores = cores or len(os.sched_getaffinity(0))
    if device == "cpu":
        return cores + 1
    return max(_LEAST_ON_CUDA, min(cores - RESERVED_ON_CUDA * gpus, MOST_PER_GPU * gpus))


def busy_machine(load: float, cores: int) -> str:
    """Say that a machine is busy: its load, a mean number of running threads, is above half its cores. Empty if not."""
    if load <= cores / 2:
        return ""
    where = f"load {load:.1f} on {cores} core{'' if cores == 1 else 's'}"
    return f"the machine is busy ({where}): times will scatter, intervals get wide, and searches take longer"


def too_many_threads(threads: int, *, device: str, cores: int | None = None) -> str:
    """Say that kernels on a processor may use more threads than this process has cores. Empty if not."""
    cores = cores or len(os.sched_getaffinity(0))
    if device != "cpu" or threads <= cores:
        return ""
    have = f"{cores} core{'' if cores == 1 else 's'} may be used here"
    return f"threads is {threads}, and {have}: threads wait for each other, and times scatter; {cores} at most fits"


def busy_s(cores: Collection[int]) -> float:
    """Return for how long these cores have worked since the machine began, in s summed over cores, for anybody."""
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *counts = line.split()
        if name.removeprefix("cpu").isdigit() and int(name.removeprefix("cpu")) in cores:
            every = [int(count) for count in counts[:8]]  # what follows is counted in these, too
            ticks += sum(every) - sum(every[_IDLE])
    return ticks / os.sysconf("SC_CLK_TCK")

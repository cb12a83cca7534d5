"""The kernels of one Triton source, compiled by several processes at once that share Triton's cache on disk."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from .recording import Recorder

_MOST_COUNTED = 255  # what an exit status can say


class _Share:
    """Triton's hook before a compilation, which leaves this process every n-th kernel in the order of their calls."""

    def __init__(self, part: int, of: int) -> None:
        self._part = part
        self._of = of
        self._places: dict[tuple[int, str], int] = {}

    def __call__(self, *, key: object, fn: Any, **_: Any) -> bool:
        """Say whether Triton is to leave a kernel alone; its launch is left out then, too."""
        place = self._places.setdefault((id(fn.jit_function), str(key)), len(self._places))
        return place % self._of != self._part

    @property
    def known(self) -> int:
        """The number of kernels so far. Not `__len__`: Triton asks a hook whether it is true."""
        return len(self._places)


def compile_in_parallel(
    run: Callable[..., object],
    shapes: Sequence[Sequence[Mapping[str, Any]]],
    recorder: Recorder,
    *,
    processes: int,
    folder: Path,
) -> None:
    """Compile what `run` launches on these shapes, by forks of this process, each of which compiles other kernels.

    A winner is compiled for some sixty shapes, and a network for one shape has hundreds of kernels: one after the other
    that takes a minute and more. This process calls `run` afterwards as if nothing had been compiled, and finds the
    kernels in Triton's cache; so failures in a fork need no word.
    """
    if processes < 2:
        return
    fork = partial(_forked, run=run, shapes=shapes, recorder=recorder, folder=folder)
    kernels = _ended(fork(-1, 1))
    if kernels > 1:
        count = min(processes, kernels)
        for process in [fork(part, count) for part in range(count)]:
            _ended(process)


def _forked(
    part: int,
    of: int,
    *,
    run: Callable[..., object],
    shapes: Sequence[Sequence[Mapping[str, Any]]],
    recorder: Recorder,
    folder: Path,
) -> int:
    """Return a process that compiles a part of the kernels; it ends with the number of all. Of part -1 it only counts.

    It calls code of the candidate, and must not come back.
    """
    process = os.fork()
    if process:
        return process
    share = _Share(part, of)
    try:
        from triton import knobs

        said = os.open(folder / "parallel", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 2)  # what the compiler complains of is said again, and read, where the kernel is needed
        knobs.runtime.jit_cache_hook = share
        for shape in shapes:
            with suppress(Exception):  # a candidate may raise anything; this process itself reports it
                recorder.call(run, shape)
    finally:
        os._exit(min(share.known, _MOST_COUNTED))


def _ended(process: int) -> int:
    """Wait for a process; return what it ended with, 0 where it was killed."""
    return max(0, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))

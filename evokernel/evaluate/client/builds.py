"""Compiling candidates in threads, never beside a running clock, each at most once while it is remembered."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.records.candidate import Candidate
from evokernel.task import Task

_REMEMBERED = 32
_T = TypeVar("_T")
Shapes = tuple[Mapping[str, int | float], ...]
"""Dimensions and scalars by name, one mapping for each shape."""


@dataclass(frozen=True, slots=True)
class Build:
    """Results of building one source."""

    built: Built | BuildFailure
    """The artifact that is timed, or why there is none."""
    checked: bytes | BuildFailure | None = None
    """The sanitizer executable, or why there is none; None for languages without one."""


class Builder:
    """Compiles with as many threads as there are cores.

    `lock` keeps compilers apart from a clock; `cores` are those that compilers may use, and `quiet` says on which of
    them no clock of another search may run at present.
    """

    def __init__(
        self,
        language: Language,
        lock: BuildLock | NoBuildLock,
        cores: Collection[int],
        *,
        quiet: Callable[[Collection[int]], Collection[int]] = tuple,
    ) -> None:
        self._language = language
        self.lock = lock
        self._cores = cores
        self._quiet = quiet
        self._threads = ThreadPoolExecutor(len(cores), "evokernel-build")
        self._builds: OrderedDict[tuple[str, str], asyncio.Task[Build]] = OrderedDict()

    def warm(self) -> None:
        """Begin to start the slow parts of the compilers; a failure is reported by the first build."""
        self._threads.submit(self._on_cores, self._language.warm)

    async def build(self, candidate: Candidate, task: Task, *, hidden: Shapes = ()) -> Build:
        """Compile a candidate and its sanitizer executable, or wait for a running build of the same.

        `hidden` are the shapes beside the search workloads that it is called with, for languages that compile for
        shapes.
        """
        name = (candidate.id, repr((hidden, [tensor.dtype for tensor in task.signature.tensors])))
        running = self._builds.get(name)
        if running is None or (running.done() and (running.cancelled() or running.exception())):
            running = asyncio.create_task(self._compile(candidate.source, task, hidden))
            self._builds[name] = running
            self._forget()
        self._builds.move_to_end(name)
        # Shielded: a started compiler cannot be cancelled, and the lock must be held as long as it runs.
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Wait for the compilers that still run."""
        await asyncio.gather(*self._builds.values(), return_exceptions=True)
        self._threads.shutdown()

    async def _compile(self, source: str, task: Task, hidden: Shapes) -> Build:
        built = await self._run(lambda: self._language.build(source, task, hidden=hidden))
        if isinstance(built, BuildFailure):
            return Build(built)
        return Build(built, await self._run(lambda: self._language.build_checked(source, task)))

    async def _run(self, work: Callable[[], _T]) -> _T:
        async with self.lock.shared():
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._on_cores, work)

    def _on_cores(self, work: Callable[[], _T]) -> _T:
        # Compilers inherit the affinity of their thread. They may use the cores the engine avoids, since none of them
        # runs beside a clock of ours.
        os.sched_setaffinity(0, self._quiet(self._cores))
        return work()

    def _forget(self) -> None:
        for name in [name for name, task in self._builds.items() if task.done()]:
            if len(self._builds) <= _REMEMBERED:
                return
            del self._builds[name]

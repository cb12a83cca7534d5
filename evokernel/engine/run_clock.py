"""Clock of a run over all sessions; heartbeats in the store count the time of a killed session too."""

import asyncio
import time
from collections.abc import Callable, Coroutine

from archive.store import Store

HEARTBEAT_S = 1.0


class RunClock:
    """The clock of an open session of a store.

    Args:
        store: in a session.
        also: called with each heartbeat.
    """

    def __init__(self, store: Store, *, also: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._also = also
        self._before_s = store.seconds_before()
        self._started = time.monotonic()
        self._noted_s = 0.0

    @property
    def seconds(self) -> float:
        """Time of all sessions, this one included, in s."""
        return self._before_s + self._elapsed_s()

    def beat(self) -> None:
        """Write the time, at most once a second: a write at every step would slow the search."""
        if self._elapsed_s() >= self._noted_s + HEARTBEAT_S:
            self.note()

    def note(self) -> None:
        """Write the time."""
        self._noted_s = self._elapsed_s()
        self._store.heartbeat(self._noted_s)
        self._also()

    async def during(self, work: Coroutine[None, None, None]) -> None:
        """Wait for long work, with heartbeats."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=HEARTBEAT_S)
                self.beat()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # where both fail, one error is raised
        await task

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

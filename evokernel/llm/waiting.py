"""Waiting that a search may cut short: the clock as a seam, and the word that nothing more is to begin."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from evokernel.errors import ModelsUnavailable

_T = TypeVar("_T")


class Clock(Protocol):
    """Tells the time and waits."""

    def now_s(self) -> float:
        """Return seconds since any fixed moment."""
        ...

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Return seconds since any fixed moment; setting the date does not move it."""
        return time.monotonic()

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class CallStop:
    """Ends all waiting once nothing more is to begin."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def stop_new_calls(self) -> None:
        """Let nobody wait any longer."""
        self._event.set()

    def check(self) -> None:
        """Raise `ModelsUnavailable` where nothing more is to begin."""
        if self._event.is_set():
            raise ModelsUnavailable("the search is ending: no call is begun any more")

    async def unless(self, waiting: Awaitable[_T]) -> _T:
        """Wait for something and return what it gives.

        Raises:
            ModelsUnavailable: nothing more is to begin; what was waited for is given up.
        """
        task = asyncio.ensure_future(waiting)
        stopped = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.check()
            return task.result()
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

"""Waiting that the end of a search cuts short, by a clock that tests replace."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from evokernel.errors import ModelsUnavailable

_T = TypeVar("_T")


class Clock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Return seconds since any fixed moment; setting the date does not move it."""
        return time.monotonic()

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class CallStop:
    """Ends all waiting once no further call may begin."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def stop_new_calls(self) -> None:
        """End all waiting."""
        self._event.set()

    def check(self) -> None:
        """Raise `ModelsUnavailable` where no further call may begin."""
        if self._event.is_set():
            raise ModelsUnavailable("the search is ending: no call is begun any more")

    async def wait_for(self, waiting: Awaitable[_T]) -> _T:
        """Wait for a result and return it.

        Raises `ModelsUnavailable` if no further call may begin; the wait is cancelled.
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

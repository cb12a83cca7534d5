"""Reader/writer lock between compilers, which share it, and a running clock, which holds it alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoBuildLock:
    """Locks nothing: where kernels run on a GPU, compilers cannot disturb the clock."""

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield


class BuildLock:
    """An asynchronous reader/writer lock. Waiters are served in order, so neither side starves."""

    def __init__(self) -> None:
        self._sharing = 0
        self._alone = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold the lock beside other compilers."""
        await self._enter(alone=False)
        try:
            yield
        finally:
            self._sharing -= 1
            self._admit()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the lock alone, for a running clock."""
        await self._enter(alone=True)
        try:
            yield
        finally:
            self._alone = False
            self._admit()

    async def _enter(self, *, alone: bool) -> None:
        ticket = asyncio.get_running_loop().create_future()
        entry = (alone, ticket)
        self._queue.append(entry)
        self._admit()
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():  # admitted in the same turn of the event loop
                self._leave(alone=alone)
            elif entry in self._queue:
                self._queue.remove(entry)
            self._admit()
            raise

    def _leave(self, *, alone: bool) -> None:
        if alone:
            self._alone = False
        else:
            self._sharing -= 1

    def _admit(self) -> None:
        """Admit the head of the queue, and all that may hold the lock beside it."""
        while self._queue and not self._alone:
            alone, ticket = self._queue[0]
            if ticket.cancelled():  # the waiting task has not run yet
                self._queue.popleft()
                continue
            if alone and self._sharing:
                return
            self._queue.popleft()
            self._alone, self._sharing = alone, self._sharing + (not alone)
            ticket.set_result(None)

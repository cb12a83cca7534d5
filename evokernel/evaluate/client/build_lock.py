"""Nothing compiles beside a running clock: many share the gate, or one has it alone. First come, first served."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoBuildLock:
    """Keeps nobody apart: where compilers cannot disturb the clock, since kernels run on a GPU."""

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield


class BuildLock:
    """An asynchronous reader/writer lock. Those who wait are served in order, so neither side starves."""

    def __init__(self) -> None:
        self._sharing = 0
        self._alone = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold the gate beside others: compilers."""
        await self._enter(alone=False)
        try:
            yield
        finally:
            self._sharing -= 1
            self._admit()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the gate with nobody beside: a running clock."""
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
            if ticket.done() and not ticket.cancelled():  # admitted in the same turn: give the place back
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
        """Let the head of the queue in, and all that may come with it."""
        while self._queue and not self._alone:
            alone, ticket = self._queue[0]
            if ticket.cancelled():  # its visitor has not yet noticed
                self._queue.popleft()
                continue
            if alone and self._sharing:
                return
            self._queue.popleft()
            self._alone, self._sharing = alone, self._sharing + (not alone)
            ticket.set_result(None)

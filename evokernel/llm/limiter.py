"""Adaptive concurrency of one model: raised by success, halved when the provider wants fewer calls."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from evokernel.errors import ModelError
from evokernel.llm.waiting import Clock

FIRST_LIMIT = 2
SHORTEST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
TOO_LONG_S = 120.0
"""The longest pause for a provider that a call waits for, in s: another model may take the call."""


class TooLong(ModelError):
    """A model asked for a pause that is too long to wait for."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Permission to make one call, given in the episode of that number."""

    episode: int


class Limiter:
    """Adaptive concurrency of one model, first come first served.

    Slow start, additive increase, multiplicative decrease (Jacobson, Congestion Avoidance and Control, 1988): from 2
    calls at once, one more for each success until the provider first objects; then half as many, and one more for each
    full round of successes. Refusals of calls from before a cut count for nothing: a burst of refusals is one episode
    and cuts once. A pause holds for all callers.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._limit = float(min(FIRST_LIMIT, most))
        self._slow_start = True
        self._running = 0
        self._episode = 0
        self._in_a_row = 0
        self._paused_until_s = clock.now_s()
        self._queue: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.Task[None] | None = None
        self._admitting: asyncio.Handle | None = None

    @property
    def limit(self) -> int:
        """Calls that may run at present."""
        return int(self._limit)

    @property
    def running(self) -> int:
        """Calls that run at present."""
        return self._running

    def pause_s(self) -> float:
        """Return the time until the next call may begin, in s."""
        return max(0.0, self._paused_until_s - self._clock.now_s())

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Ticket]:
        """Wait for a turn, first come first served, and hold it for the block.

        Raises `TooLong` if the provider asked for a pause of more than `TOO_LONG_S`.
        """
        await self._acquire()
        try:
            yield Ticket(self._episode)
        finally:
            self._running -= 1
            self._admit()

    def succeeded(self) -> None:
        """Note that a call was answered: one more may fit."""
        self._in_a_row = 0
        if 2 * self._running > self._limit:  # a limit that calls do not come near is untried
            grown = self._limit + (1.0 if self._slow_start else 1.0 / self._limit)
            self._limit = min(float(self._most), grown)

    def refused(self, ticket: Ticket, *, retry_after_s: float | None, jitter: float) -> bool:
        """Note that the provider wants fewer calls; say whether that begins an episode.

        Without a time from the provider the pause doubles with each episode in a row. `jitter`, 0 to 1, lengthens it by
        up to a quarter, so that processes that share a key do not come back together.
        """
        new = ticket.episode == self._episode
        if new:
            self._episode += 1
            self._in_a_row += 1
            self._slow_start = False
            self._limit = max(1.0, self._limit / 2)
        own = min(LONGEST_PAUSE_S, SHORTEST_PAUSE_S * 2.0 ** (self._in_a_row - 1)) * (1 + jitter / 4)
        if new or retry_after_s is not None:
            self._paused_until_s = max(self._paused_until_s, self._clock.now_s() + max(own, retry_after_s or 0.0))
        if self.pause_s() > TOO_LONG_S:
            self.end_waiting(TooLong(self._too_long()))
        return new

    def end_waiting(self, error: ModelError) -> None:
        """Raise an error in every call that waits for a turn."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(type(error)(*error.args))

    def close(self) -> None:
        """Stop the wait for the end of a pause."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    async def _acquire(self) -> None:
        if self.pause_s() > TOO_LONG_S:
            raise TooLong(self._too_long())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._running -= 1  # the turn came together with the cancellation
            elif turn in self._queue:
                self._queue.remove(turn)
            self._admit()
            raise

    def _admit(self) -> None:
        """Admit the next call; during a pause, at its end.

        One call for each turn of the event loop: to begin one takes a millisecond or two, and a hundred at once would
        block everything else.
        """
        pause_s = self.pause_s()
        if pause_s > 0:
            if self._queue and (self._alarm is None or self._alarm.done()):
                self._alarm = asyncio.get_running_loop().create_task(self._wake())
        elif self._admitting is None and self._queue and self._running < self.limit:
            self._admit_first()
            self._admitting = asyncio.get_running_loop().call_soon(self._admit_next)

    def _admit_next(self) -> None:
        self._admitting = None
        self._admit()

    def _admit_first(self) -> None:
        turn = self._queue.popleft()
        if not turn.done():
            self._running += 1
            turn.set_result(None)

    async def _wake(self) -> None:
        while (pause_s := self.pause_s()) > 0:
            await self._clock.sleep_s(pause_s)
        self._admit()

    def _too_long(self) -> str:
        return f"asked for a pause of {self.pause_s():.0f} s"

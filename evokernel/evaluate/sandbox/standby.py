"""A process in waiting: its context is made before it is needed, and never while a clock runs."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from evokernel.errors import HarnessError, WorkerError

_TRIES = 2


class ReadyProcess(Protocol):
    """A process that is of use once its context is made."""

    @property
    def pid(self) -> int:
        """Its process."""

    def settle(self) -> None:
        """Wait until its context is made. Raises `WorkerError`."""

    def close(self) -> None:
        """End it."""


P = TypeVar("P", bound=ReadyProcess)


class StandbyProcess(Generic[P]):
    """At most one process in waiting, of those that `start` starts; `what` is what one is called."""

    def __init__(self, start: Callable[[], P], what: str) -> None:
        self._start = start
        self._what = what
        self._waiting: P | None = None

    def begin(self) -> P:
        """Start one, unless one is waiting; return it."""
        if self._waiting is None:
            self._waiting = self._start()
        return self._waiting

    def take(self) -> P:
        """Return the one in waiting, or a new one, settled; none is waiting then.

        Raises:
            HarnessError: nothing that was started could make a context.
        """
        for _ in range(_TRIES):
            fresh, self._waiting = self.begin(), None
            try:
                fresh.settle()
            except WorkerError as error:
                fresh.close()
                failure = error
            else:
                return fresh
        raise HarnessError(f"no {self._what} could make a context on the GPU: {failure}")

    def settle(self) -> None:
        """See to it that one is waiting and does nothing any more, beside a clock say; a failed one is let go."""
        try:
            self.begin().settle()
        except WorkerError:
            self.close()

    def pids(self) -> set[int]:
        """Return the process in waiting."""
        return {self._waiting.pid} if self._waiting is not None else set()

    def close(self) -> None:
        """End the one in waiting. Allowed twice."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

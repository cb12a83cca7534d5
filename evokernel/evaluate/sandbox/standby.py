"""Standby processes: the context is made before it is needed, and never while a clock runs."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from evokernel.errors import HarnessError, WorkerError

_TRIES = 2


class ReadyProcess(Protocol):
    """A process that is usable once its context is made."""

    @property
    def pid(self) -> int:
        """Its process number."""

    def wait_ready(self) -> None:
        """Wait until its context is made. Raises `WorkerError`."""

    def close(self) -> None:
        """End it."""


P = TypeVar("P", bound=ReadyProcess)


class StandbyProcess(Generic[P]):
    """At most one standby process, made by `start`; `what` names it in messages."""

    def __init__(self, start: Callable[[], P], what: str) -> None:
        self._start = start
        self._what = what
        self._waiting: P | None = None

    def begin(self) -> P:
        """Start a standby process, unless there is one; return it."""
        if self._waiting is None:
            self._waiting = self._start()
        return self._waiting

    def take(self) -> P:
        """Return the standby process, or a new one, with its context made; no standby remains.

        Raises `HarnessError` if no started process could make a context.
        """
        for _ in range(_TRIES):
            fresh, self._waiting = self.begin(), None
            try:
                fresh.wait_ready()
            except WorkerError as error:
                fresh.close()
                failure = error
            else:
                return fresh
        raise HarnessError(f"no {self._what} could make a context on the GPU: {failure}")

    def wait_ready(self) -> None:
        """Wait until there is an idle standby process, which cannot disturb a clock; close one that fails."""
        try:
            self.begin().wait_ready()
        except WorkerError:
            self.close()

    def pids(self) -> set[int]:
        """Return the standby process, if there is one."""
        return {self._waiting.pid} if self._waiting is not None else set()

    def close(self) -> None:
        """End the standby process. Allowed twice."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

"""The time that a queue runs by."""

import threading
import time
from typing import Protocol

WOKEN_S = 1.0
"""The longest wait after `wake`, in s."""


class QueueClock(Protocol):
    """The time that a queue runs by."""

    def now(self) -> float:
        """Return the time of the clock, in s since 1970; it may be set back."""

    def elapsed(self) -> float:
        """Return a time that only grows, in s."""

    def rest(self, seconds: float) -> None:
        """Wait, or less where `wake` is called meanwhile."""

    def wake(self) -> None:
        """End the wait, and every later one."""


class MachineClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def now(self) -> float:
        """Return the time of the clock, in s since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Return a time that only grows, in s."""
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        """Wait, or less where `wake` is called meanwhile."""
        if not self._woken.wait(seconds):
            return
        time.sleep(min(seconds, WOKEN_S))  # woken for good: looks go on, at their pace

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

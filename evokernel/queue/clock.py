"""The time that a queue runs by."""

import time

WOKEN_S = 1.0
"""The longest wait after `wake`, in s."""
NAP_S = 0.2
"""Time between two looks for a `wake`, in s."""


class QueueClock:
    """The machine's clock. A signal handler may call `wake`, which takes no lock: its thread may hold one."""

    def __init__(self) -> None:
        self._woken = False

    def now(self) -> float:
        """Return the time of the clock, in s since 1970; it may be set back."""
        return time.time()

    def elapsed(self) -> float:
        """Return a time that only grows, in s."""
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        """Wait, or less where `wake` is called meanwhile."""
        woken = self._woken
        ends = time.monotonic() + (min(seconds, WOKEN_S) if woken else seconds)  # looks go on, at their pace
        while self._woken is woken and (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))  # a signal does not end a sleep

    def wake(self) -> None:
        """End the wait, and every later one."""
        self._woken = True

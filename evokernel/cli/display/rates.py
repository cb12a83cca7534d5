"""Rates of a session and the time until its end."""

from collections import deque

WINDOW_S = 60.0


class SessionRates:
    """Rates over the last minute; time left, extrapolated from the budget used in this session."""

    def __init__(self) -> None:
        self._results: deque[tuple[float, bool]] = deque()
        self._begun = False
        self._first: tuple[float, float] | None = None

    def result(self, at: float, *, valid: bool) -> None:
        """Count one result at a time in seconds."""
        self._begun = True
        self._results.append((at, valid))
        self._trim(at)

    def per_second(self, now: float, *, since: float) -> float:
        """Return results per second over the last minute, or since the session began if that is shorter."""
        self._trim(now)
        span = min(WINDOW_S, now - since)
        return len(self._results) / span if span > 0 else 0.0

    def valid_share(self) -> float | None:
        """Return the share of the last minute's results that are right and measured, or None without any."""
        return sum(valid for _, valid in self._results) / len(self._results) if self._results else None

    def left_s(self, now: float, remaining: float | None) -> float | None:
        """Return the seconds left, or None until the budget has visibly shrunk since the first result.

        None, too, once the budget is used: final measurements are in no budget.

        Args:
            now: the time in seconds.
            remaining: the share of the budget left, 0 to 1.
        """
        if not remaining or not self._begun:
            return None
        if self._first is None:
            self._first = (now, remaining)
        began, at_first = self._first
        used = at_first - remaining
        return remaining * (now - began) / used if used > 0.002 and now > began else None

    def _trim(self, now: float) -> None:
        while self._results and self._results[0][0] < now - WINDOW_S:
            self._results.popleft()

"""Choice of the next entry of a night, and of the time and money for its slice.

Every entry gets a start first. Then time goes to the entry with the highest expected gain an hour: its measured gains,
of which older ones count less, together with one gain that is supposed of each. An entry that gains nothing falls
behind those that got less time, so entries without gains take turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.queue.records import EntryUsage, QueueEntry, SharedBudget, SharedUsage, StoreFacts

LEAST_S = 60.0
"""The shortest slice, in s: a session takes some 20 s to begin."""
SHORT_S, LONG_S = 300.0, 3600.0
"""The shortest and the longest slice while there is time, in s."""
OPEN_END_S = 1800.0
"""A slice where the night has no end, in s."""
ROUNDS = 4
"""Slices that each entry of a night could get, by its length."""
SUPPOSED_GAIN = 0.05
"""Gain that is supposed of each entry, in the logarithm of the speed-up."""
SUPPOSED_HOURS = 0.5
"""Hours that the supposed gain took."""
FADING = 0.5
"""Weight of a slice, beside that of the next newer one."""


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """An entry that could run now."""

    entry: QueueEntry
    use: EntryUsage

    @property
    def started(self) -> bool:
        """True where it had a slice with a result."""
        return bool(self.use.gains)

    @property
    def gain_rate(self) -> float:
        """The gain to expect, in the logarithm of the speed-up, for an hour."""
        weights = [FADING**age for age in range(len(self.use.gains))]
        hours = sum(weight * hours for weight, (hours, _) in zip(weights, self.use.gains, strict=True))
        gain = sum(weight * gain for weight, (_, gain) in zip(weights, self.use.gains, strict=True))
        return (SUPPOSED_GAIN + gain) / (SUPPOSED_HOURS + hours)


def choose(entries: Sequence[WaitingEntry]) -> WaitingEntry:
    """Return the entry to run: one that has not started, else that with the highest expected gain."""
    return min(entries, key=lambda each: (each.started, -each.gain_rate * each.started, each.use.seconds))


def measured_gain(before: StoreFacts, after: StoreFacts) -> float:
    """Return the gain of a slice in the logarithm of the speed-up, >= 0.

    The first kernels of a search are much faster than its seed, which says nothing of what comes: in a first slice the
    second half of the facts counts, twice.
    """
    if after.log_speedup is None:
        return 0.0
    if before.log_speedup is not None:
        return max(0.0, after.log_speedup - before.log_speedup)
    return 0.0 if after.half_log_speedup is None else max(0.0, 2 * (after.log_speedup - after.half_log_speedup))


def seconds_left(budget: SharedBudget, use: SharedUsage, *, added: float, now: float) -> float | None:
    """Return how long sessions of a night may still run, in s; None without a limit.

    With an end by the clock they may run no longer than from the moment they were added to that end, so that a clock
    that is set back gives no more time.
    """
    limits = []
    if budget.until is not None:
        limits += [budget.until - now, budget.until - added - use.seconds]
    if budget.hours is not None:
        limits.append(budget.hours * 3600 - use.seconds)
    return min(limits, default=None)


def slice_seconds(left: float | None, *, entries: int, unstarted: int, least_s: float = 0.0) -> float:
    """Return the length of the next slice, in s.

    Args:
        left: as `seconds_left` returns it.
        entries: entries of the night that may still run.
        unstarted: those among the others that have not started; time is kept for them.
        least_s: the shortest slice that is of use, which goes before the time of others.
    """
    if left is None:
        return max(OPEN_END_S, least_s)
    length = min(max(left / (ROUNDS * max(1, entries)), SHORT_S), LONG_S)
    length = min(length, max(left / (1 + unstarted), left - LONG_S * unstarted))
    length = max(length, min(least_s, left))
    return left if left - length < LEAST_S else max(length, min(LEAST_S, left))


def slice_dollars(budget: SharedBudget, use: SharedUsage, *, unstarted: int) -> float | None:
    """Return the money for the next slice; None without a limit. Those that wait for their start get equal parts."""
    return None if budget.dollars is None else max(0.0, budget.dollars - use.dollars) / (1 + unstarted)

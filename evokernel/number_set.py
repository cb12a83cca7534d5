"""A set of numbers in eight bytes each, for what a search of weeks must not forget: a plain set takes about eighty."""

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

Numbers = np.ndarray[tuple[int], np.dtype[np.uint64]]
_LATEST = 4096


class NumberSet:
    """Numbers from 0 to 2^64 - 1, to which some can be added; `numbers` to begin with.

    The latest few thousand are in a set of Python's, all others in one sorted array.
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        given = numbers if isinstance(numbers, np.ndarray) else np.fromiter(numbers, np.uint64)
        self._latest: set[int] = set()
        self._settled: Numbers = np.unique(given.astype(np.uint64))
        self._view = self._settled.data  # gives plain numbers, in which `bisect` searches fastest

    def add(self, number: int) -> None:
        """Add a number, if it is not there."""
        if number not in self:
            self._latest.add(number)
            if len(self._latest) >= _LATEST:
                self._settle()

    def ordered(self) -> Numbers:
        """Return all numbers in their order; not to be changed."""
        self._settle()
        return self._settled

    def __contains__(self, number: int) -> bool:
        if number in self._latest:
            return True
        at = bisect_left(self._view, number)
        return at < len(self._view) and self._view[at] == number

    def __len__(self) -> int:
        return len(self._settled) + len(self._latest)

    def _settle(self) -> None:
        """Put the latest among the others."""
        latest = np.fromiter(self._latest, np.uint64, len(self._latest))
        self._settled = np.sort(np.concatenate((self._settled, latest)))
        self._view = self._settled.data
        self._latest.clear()

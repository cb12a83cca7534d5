"""Failed candidates: what is left to repair, and what prompts warn of."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace

from evokernel.records.step import Failure
from islands.image import FailuresSnapshot

KEPT = 64
TOLD = 8


class FailureLog:
    """The latest failures. Only those of `sources` (operators by name) may be repaired, `repairs` times in a line."""

    def __init__(self, sources: Collection[str] = (), *, repairs: int = 0) -> None:
        self._sources = sources
        self._repairs = repairs
        self._failures: OrderedDict[str, Failure] = OrderedDict()
        self._taken: set[str] = set()

    def add(self, failure: Failure) -> None:
        """Take in a failed candidate; one that was to mend another has had one try more than that."""
        before = [self._failures[parent].tries + 1 for parent in failure.parents if parent in self._failures]
        self._failures[failure.candidate.id] = replace(failure, tries=max(before, default=0))
        while len(self._failures) > KEPT:
            self._taken.discard(self._failures.popitem(last=False)[0])

    def take(self, parents: Sequence[str]) -> None:
        """Note that something is on its way that mends these: it goes on from there."""
        self._taken.update(parent for parent in parents if parent in self._failures)

    def tried(self, parents: Sequence[str]) -> None:
        """Note an attempt to mend these that came to nothing."""
        for parent in parents:
            if parent in self._failures:
                self._failures[parent] = replace(self._failures[parent], tries=self._failures[parent].tries + 1)

    def open(self) -> list[Failure]:
        """Return what may be repaired, newest first."""
        return [
            failure
            for name, failure in reversed(self._failures.items())
            if name not in self._taken and failure.operator in self._sources and failure.tries < self._repairs
        ]

    def get(self, candidate_id: str) -> Failure | None:
        """Return a failure by the id of the candidate, while it is remembered."""
        return self._failures.get(candidate_id)

    def warnings(self, parents: Collection[str]) -> tuple[Failure, ...]:
        """Return the latest failures, oldest first, those of these parents last: nearest to where they are read."""
        ranked = sorted(self._failures.values(), key=lambda failure: bool(set(failure.parents) & set(parents)))
        return tuple(ranked[-TOLD:])

    def image(self) -> FailuresSnapshot:
        """Return all that counts as plain values."""
        return FailuresSnapshot(tuple(self._failures.values()), tuple(sorted(self._taken)))

    def restore(self, image: FailuresSnapshot) -> None:
        """Become what an image was taken of."""
        self._failures = OrderedDict((failure.candidate.id, failure) for failure in image.failures)
        self._taken = set(image.taken)

    def fingerprint(self) -> list[object]:
        """Return all that counts, in a fixed order."""
        return [[(name, failure.tries) for name, failure in self._failures.items()], sorted(self._taken)]

"""Failed candidates, for repairs and for the warnings of prompts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from evokernel.records.step import Failure

KEPT = 64
WARNINGS = 8


@dataclass(slots=True)
class FailureLog:
    """The latest failures of a run."""

    by_id: dict[str, Failure] = field(default_factory=dict)
    """By id of the candidate, oldest first."""
    in_repair: set[str] = field(default_factory=set)
    """Ids of those that a proposal under way repairs."""

    def add(self, failure: Failure) -> None:
        """Take in a failed candidate; a failed repair has one try more than the candidate it was to repair."""
        before = [self.by_id[parent].tries + 1 for parent in failure.parents if parent in self.by_id]
        self.by_id[failure.candidate.id] = replace(failure, tries=max(before, default=0))
        while len(self.by_id) > KEPT:
            oldest = next(iter(self.by_id))
            del self.by_id[oldest]
            self.in_repair.discard(oldest)

    def begin_repair(self, parents: Sequence[str]) -> None:
        """Note that a proposal under way repairs these candidates: the next repair starts from its result."""
        self.in_repair.update(parent for parent in parents if parent in self.by_id)

    def count_try(self, parents: Sequence[str]) -> None:
        """Note a failed attempt to repair these candidates."""
        for parent in parents:
            if parent in self.by_id:
                self.by_id[parent] = replace(self.by_id[parent], tries=self.by_id[parent].tries + 1)

    def repairable(self, operators: Collection[str], *, repairs: int) -> list[Failure]:
        """Return failures of these operators with fewer than `repairs` tries, newest first."""
        return [
            failure
            for name, failure in reversed(self.by_id.items())
            if name not in self.in_repair and failure.operator in operators and failure.tries < repairs
        ]

    def get(self, candidate_id: str) -> Failure | None:
        """Return a failure by the id of the candidate, while it is remembered."""
        return self.by_id.get(candidate_id)

    def warnings(self, parents: Collection[str]) -> tuple[Failure, ...]:
        """Return the latest failures, oldest first, those of these parents last: there a model heeds them most."""
        ranked = sorted(self.by_id.values(), key=lambda failure: bool(set(failure.parents) & set(parents)))
        return tuple(ranked[-WARNINGS:])

"""Failed candidates, for repairs and for the warnings of prompts, and how they were mended."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite
from evokernel.records.step import ErrorFix, Failure

KEPT = 64
WARNINGS = 8
FIXES, FIXES_SHOWN = 32, 2
LONGEST_LINE = 400
"""Characters of the line that an error's class comes from."""
_ERROR = re.compile(r"error(?!: ld returned)|undefined reference", re.IGNORECASE)
_DETAILS = re.compile(r"[0-9]+|'[^'\n]*'|`[^`'\n]*[`']|\"[^\"\n]*\"|\u2018[^\u2019\n]*\u2019")
"""Parts of a message that belong to one kernel: numbers and quoted names."""


def error_line(evaluation: Evaluation) -> str:
    """Return the first line of a feedback that names an error, else its first line, without the place in a file."""
    lines = [line for line in evaluation.feedback.splitlines() if line.strip()]
    named = next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")
    _, found, message = named.partition("error: ")
    return (message if found else named).strip()[:LONGEST_LINE]


def error_class(evaluation: Evaluation) -> str:
    """Return the verdict and the line of the error, without what belongs to one kernel: numbers and quoted names."""
    return f"{evaluation.status}: {_DETAILS.sub('#', error_line(evaluation))}"


@dataclass(slots=True)
class FailureLog:
    """The latest failures of a run."""

    by_id: dict[str, Failure] = field(default_factory=dict)
    """By id of the candidate, oldest first."""
    in_repair: set[str] = field(default_factory=set)
    """Ids of those that a proposal under way repairs."""
    fixes: list[ErrorFix] = field(default_factory=list)
    """The latest fixes, oldest first."""

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

    def mended(self, parents: Sequence[str], elite: Elite) -> None:
        """Note that a right candidate was made from a failed one, its first parent."""
        for failure in filter(None, map(self.get, parents[:1])):
            evaluation, broken = failure.evaluation, failure.candidate.source
            error, line = error_class(evaluation), error_line(evaluation)
            self.fixes.append(ErrorFix(error, line, broken, elite.candidate.source, elite.program_hash))
        del self.fixes[:-FIXES]

    def bar(self, program_hash: str) -> None:
        """Forget fixes that did not hold."""
        self.fixes = [fix for fix in self.fixes if fix.program_hash != program_hash]

    def fixes_for(self, failure: Failure) -> tuple[ErrorFix, ...]:
        """Return the latest fixes of the same class of error, newest first."""
        wanted = error_class(failure.evaluation)
        return tuple(fix for fix in reversed(self.fixes) if fix.error == wanted)[:FIXES_SHOWN]

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

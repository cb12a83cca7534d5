"""Failed candidates by stage, with examples, and steps without a candidate, with their reasons."""

import re
from collections import Counter
from dataclasses import dataclass

from archive.store import Store

EXAMPLES = 3
REASONS = 12
_LIMIT = 4000  # characters of a text that a query returns; callers show less
_NAMED = re.compile(r"\b[0-9a-f]{16}\b")


@dataclass(frozen=True, slots=True)
class Example:
    """One failed candidate."""

    candidate: str
    """Its id."""
    operator: str
    """The operator that proposed it."""
    island: str
    """The population it was proposed for; `*` for all."""
    feedback: str
    """The text that the judge gave, cut after 4,000 characters."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Candidates that failed at one stage with one status."""

    stage: str
    """The stage of the cascade."""
    status: str
    """The status of their evaluations."""
    count: int
    """How many candidates failed so."""
    examples: tuple[Example, ...]
    """Some of them with different feedback, newest first."""


@dataclass(frozen=True, slots=True)
class EmptySteps:
    """Steps of one operator without a candidate, for one reason."""

    operator: str
    """The operator that was asked."""
    reason: str
    """The reason that it gave."""
    count: int
    """How many steps ended so."""


_FAILED = (
    "FROM results r JOIN proposals p ON p.step = r.step JOIN evaluations e ON e.seq = r.evaluation "
    "WHERE e.status <> 'ok'"
)


def failures_of(store: Store) -> tuple[Failures, ...]:
    """Return the failures of candidates by stage and status, the most frequent first."""
    counted = store.database.rows(f"SELECT e.stage, e.status, count(*) AS count {_FAILED} GROUP BY 1, 2")
    examples = store.database.rows(
        "SELECT stage, status, candidate, operator, island, feedback FROM (SELECT *, row_number() OVER "
        "(PARTITION BY stage, status ORDER BY seq DESC) AS place FROM ("
        f"SELECT e.stage, e.status, e.candidate, p.operator, p.island, substr(e.feedback, 1, {_LIMIT}) AS feedback, "
        f"max(e.seq) AS seq {_FAILED} GROUP BY 1, 2, 6)) WHERE place <= ? ORDER BY seq DESC",
        (EXAMPLES,),
    )
    found: dict[tuple[str, str], list[Example]] = {}
    for row in examples:
        example = Example(row["candidate"], row["operator"], row["island"], row["feedback"])
        found.setdefault((row["stage"], row["status"]), []).append(example)
    rows = sorted(counted, key=lambda row: (-row["count"], row["stage"], row["status"]))
    return tuple(
        Failures(row["stage"], row["status"], row["count"], tuple(found.get((row["stage"], row["status"]), ())))
        for row in rows
    )


def nothing_of(store: Store) -> tuple[EmptySteps, ...]:
    """Return the reasons of steps with neither a candidate nor an insight, the most frequent first.

    Reasons that differ in the candidates that they name are one.
    """
    rows = store.database.rows(
        f"SELECT p.operator, substr(p.rationale, 1, {_LIMIT}) AS reason, count(*) AS count FROM results r "
        "JOIN proposals p ON p.step = r.step WHERE r.evaluation IS NULL AND r.seq NOT IN (SELECT seq FROM insights) "
        "GROUP BY 1, 2"
    )
    counts = Counter[tuple[str, str]]()
    for row in rows:
        counts[row["operator"], _NAMED.sub("...", row["reason"])] += row["count"]
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(EmptySteps(operator, reason, count) for (operator, reason), count in ordered[:REASONS])

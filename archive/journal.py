"""Journal as typed facts, in the order of commit: a resumed run replays them."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from archive import insights
from archive.calls import failed_tries
from archive.file.database import Database
from archive.file.records import (
    EVALUATION_COLUMNS,
    PROPOSAL_COLUMNS,
    Lineage,
    NoCandidate,
    candidate_of,
    evaluation_of,
    no_candidate_of,
    proposal_of,
)
from evokernel.errors import StoreCorrupt
from evokernel.records.candidate import Proposal, Usage
from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite, elite_of
from evokernel.records.llm import Insight

_PAGE = 500


class EntryKind(StrEnum):
    """Kind of a journal entry."""

    RESULT = "result"
    """A proposal got its evaluation."""
    BARREN = "barren"
    """A step ended without a candidate and without an insight."""
    INSIGHT = "insight"
    """A step ended with an insight."""
    EVALUATION = "evaluation"
    """A known candidate was evaluated once more."""
    INBOX = "inbox"
    """The engine took an entry of the inbox in."""
    CONFIG_EDIT = "config_edit"
    """A setting changed between sessions."""
    STOP = "stop"
    """A session ended in an orderly way."""


@dataclass(frozen=True, slots=True)
class JournalFact:
    """A fact of the journal."""

    seq: int
    """The number of the fact."""
    at: float
    """The time of commit, in s since 1970."""


@dataclass(frozen=True, slots=True)
class ResultEntry(JournalFact):
    """A proposal with its evaluation."""

    proposal: Proposal
    """The proposal of the step."""
    program_hash: str
    """The hash of the program."""
    skeleton: str
    """The hash of the source with the values of its tunables masked."""
    evaluation: Evaluation
    """Its verdict."""
    evaluation_seq: int
    """The fact that brought the evaluation in; not `seq` where a stored one was reused."""
    origin: str
    """Run and step in the store that a fork copied it from; empty for an own result."""
    failed: tuple[Usage, ...] = ()
    """Costs of the calls of its step without a reply, by model."""

    @property
    def step(self) -> int:
        """The step of the proposal."""
        return self.proposal.step

    @property
    def reused(self) -> bool:
        """Say whether a stored evaluation was used again."""
        return self.evaluation_seq != self.seq

    def elite(self) -> Elite:
        """Return the kernel as archives hold it. Raises `ValueError` where it is not right."""
        hashes = {"program_hash": self.program_hash, "skeleton": self.skeleton}
        found = elite_of(self.proposal.candidate, self.evaluation, seq=self.seq, **hashes)
        if found is None:
            raise ValueError(f"the result {self.seq} is not that of a correct kernel")
        return found


@dataclass(frozen=True, slots=True)
class EmptyStep(JournalFact):
    """A step without a proposal and without an insight."""

    no_candidate: NoCandidate
    """The reason, the parents and the cost."""

    @property
    def step(self) -> int:
        """The step."""
        return self.no_candidate.step


@dataclass(frozen=True, slots=True)
class InsightEntry(JournalFact):
    """A step with an insight in place of a proposal."""

    no_candidate: NoCandidate
    """Operator, parents and cost of the step."""
    insight: Insight
    """The words that were kept."""

    @property
    def step(self) -> int:
        """The step."""
        return self.no_candidate.step


@dataclass(frozen=True, slots=True)
class EvaluationEntry(JournalFact):
    """A further evaluation of a candidate, outside any step: a confirmation, or the final one."""

    evaluation: Evaluation
    """The verdict."""
    origin: str
    """Run and seq in the store that a fork copied it from; empty for an own one."""


@dataclass(frozen=True, slots=True)
class InboxEntry(JournalFact):
    """An entry of the inbox that the engine took in; its `seq` is 0 while it waits."""

    id: int
    """The number of the entry in the inbox."""
    kind: str
    """Its kind, such as `hint`."""
    payload: Any
    """Its content, as JSON values."""
    author: str
    """The person or program that put it in."""
    created: float
    """The time at which it was put in, in s since 1970."""


@dataclass(frozen=True, slots=True)
class ConfigEntry(JournalFact):
    """A setting that changed between sessions."""

    key: str
    """The setting, dotted."""
    old: Any
    """The value before; None where it was absent."""
    new: Any
    """The value from now on; None where it is absent."""


@dataclass(frozen=True, slots=True)
class StopEntry(JournalFact):
    """The orderly end of a session."""

    reason: str
    """The reason to stop."""


Fact = ResultEntry | EmptyStep | InsightEntry | EvaluationEntry | InboxEntry | ConfigEntry | StopEntry
_Times = dict[int, float]
_Reader = Callable[[Database, _Times, int, int], list[Fact]]


def read_facts(database: Database, after: int = 0) -> Iterator[Fact]:
    """Yield every fact with a seq above `after`, a page at a time: no cursor stays open between pages.

    Raises `StoreCorrupt` for a journal entry without its content.
    """
    for page in database.pages("SELECT seq, at FROM journal", "seq", after=after):
        times = {row["seq"]: row["at"] for row in page}
        first, last = page[0]["seq"], page[-1]["seq"]
        found = {fact.seq: fact for read in _READERS for fact in read(database, times, first, last)}
        for seq in times:
            if seq not in found:
                raise StoreCorrupt(f"{database.path}: fact {seq} has no content; `evokernel verify` says more")
            yield found[seq]


def lineages(database: Database, where: str, values: tuple[object, ...]) -> dict[int, Lineage]:
    """Return parents and inspirations by step, for the rows of `parents` that a condition picks."""
    named: dict[int, tuple[list[str], list[str]]] = {}
    for row in database.rows(f"SELECT step, candidate, kind FROM parents WHERE {where} ORDER BY step, ordinal", values):
        parents, inspirations = named.setdefault(row["step"], ([], []))
        (parents if row["kind"] == "parent" else inspirations).append(row["candidate"])
    return {step: (tuple(parents), tuple(inspirations)) for step, (parents, inspirations) in named.items()}


def read_results(database: Database, seqs: Collection[int]) -> dict[int, ResultEntry]:
    """Return the results with these seqs, by seq. Raises `StoreCorrupt` for one whose content is missing."""
    found: dict[int, ResultEntry] = {}
    ordered = sorted(seqs)
    for place in range(0, len(ordered), _PAGE):
        page = tuple(ordered[place : place + _PAGE])
        named = f"IN ({', '.join('?' * len(page))})"
        times = {row["seq"]: row["at"] for row in database.rows(f"SELECT seq, at FROM journal WHERE seq {named}", page)}
        facts = _results_where(database, times, named, page)
        found.update({fact.seq: fact for fact in facts if isinstance(fact, ResultEntry)})
    return found


def _results(database: Database, times: _Times, first: int, last: int) -> list[Fact]:
    return _results_where(database, times, "BETWEEN ? AND ?", (first, last))


def _results_where(database: Database, times: _Times, named: str, span: tuple[int, ...]) -> list[Fact]:
    """Return the facts of steps whose results have seqs that are `named`, the end of an SQL condition."""
    evaluations = {
        row["seq"]: evaluation_of(row)
        for row in database.rows(
            f"SELECT {EVALUATION_COLUMNS} FROM evaluations WHERE seq IN "
            f"(SELECT evaluation FROM results WHERE seq {named})",
            span,
        )
    }
    learned = insights.between(database, min(span), max(span))
    steps = f"step IN (SELECT step FROM results WHERE seq {named})"
    parents, failures = lineages(database, steps, span), failed_tries(database, steps, span)
    columns = ", ".join(f"p.{name}" for name in PROPOSAL_COLUMNS.split(", ") if name != "at")
    rows = database.rows(
        f"SELECT r.seq, r.evaluation, {columns}, c.language, c.program_hash, c.skeleton, t.body "
        "FROM results r JOIN proposals p ON p.step = r.step LEFT JOIN candidates c ON c.id = p.candidate "
        f"LEFT JOIN texts t ON t.hash = c.text WHERE r.seq {named}",
        span,
    )
    facts: list[Fact] = []
    for row in rows:
        seq, lineage, failed = row["seq"], parents.get(row["step"], ((), ())), failures.get(row["step"], ())
        if row["evaluation"] is not None:
            facts.append(replace(_result(row, times[seq], evaluations, lineage), failed=failed))
            continue
        nothing = no_candidate_of(row, lineage=lineage, failed=failed)
        if seq in learned:
            facts.append(InsightEntry(seq, times[seq], nothing, learned[seq]))
        else:
            facts.append(EmptyStep(seq, times[seq], nothing))
    return facts


def _result(row: sqlite3.Row, at: float, evaluations: dict[int, Evaluation], lineage: Lineage) -> ResultEntry:
    evaluation = evaluations.get(row["evaluation"])
    if evaluation is None or row["body"] is None:
        raise StoreCorrupt(f"the result of step {row['step']} lacks its evaluation or its source")
    return ResultEntry(
        seq=row["seq"],
        at=at,
        proposal=proposal_of(row, candidate=candidate_of(row), lineage=lineage),
        program_hash=row["program_hash"],
        skeleton=row["skeleton"],
        evaluation=evaluation,
        evaluation_seq=row["evaluation"],
        origin=row["origin"],
    )


def _remeasured(database: Database, times: _Times, first: int, last: int) -> list[Fact]:
    rows = database.rows(
        f"SELECT {EVALUATION_COLUMNS} FROM evaluations WHERE seq IN "
        "(SELECT seq FROM journal WHERE seq BETWEEN ? AND ? AND kind = ?)",
        (first, last, EntryKind.EVALUATION),
    )
    return [EvaluationEntry(row["seq"], times[row["seq"]], evaluation_of(row), row["origin"]) for row in rows]


def _inbox(database: Database, times: _Times, first: int, last: int) -> list[Fact]:
    rows = database.rows("SELECT * FROM inbox WHERE taken_seq BETWEEN ? AND ?", (first, last))
    return [inbox_entry(row, seq=row["taken_seq"], at=times[row["taken_seq"]]) for row in rows]


def inbox_entry(row: sqlite3.Row, *, seq: int, at: float) -> InboxEntry:
    """Return the entry in a row of `inbox`, taken at a seq."""
    return InboxEntry(seq, at, row["id"], row["kind"], _json(row["payload"]), row["author"], row["created"])


def _edits(database: Database, times: _Times, first: int, last: int) -> list[Fact]:
    rows = database.rows("SELECT * FROM config_edits WHERE seq BETWEEN ? AND ?", (first, last))
    return [
        ConfigEntry(row["seq"], times[row["seq"]], row["key"], _json(row["old"]), _json(row["new"])) for row in rows
    ]


def _stops(database: Database, times: _Times, first: int, last: int) -> list[Fact]:
    rows = database.rows("SELECT * FROM stops WHERE seq BETWEEN ? AND ?", (first, last))
    return [StopEntry(row["seq"], times[row["seq"]], row["reason"]) for row in rows]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise StoreCorrupt(f"the store holds a value that is not JSON ({error}); it was altered by hand") from error


_READERS: tuple[_Reader, ...] = (_results, _remeasured, _inbox, _edits, _stops)

"""Forking: a candidate and its ancestors, with their origin, become the beginning of a new store."""

import sqlite3
import time
from bisect import bisect_right
from pathlib import Path

from archive import hidden_checks
from archive.file import chain, checksums
from archive.file.database import Database
from archive.file.records import CANDIDATE_COLUMNS, EVALUATION_COLUMNS, PROPOSAL_COLUMNS
from archive.identity import new_run, read_meta, write_meta
from archive.journal import EntryKind
from archive.lineage import ancestors
from archive.queries import FIRST_STEP
from archive.store import Store
from evokernel.errors import StoreCorrupt, StoreError


def fork(source: Path | str, target: Path | str, *, candidate: str) -> int:
    """Copy a candidate and its ancestors, with their evaluations, into a new store; return how many candidates.

    In the new store their steps and seqs count from 1 and their order stays. `origin` names the run and the step (or
    seq) they come from. Evaluations under the key of the new run are used again; others are history only. Seconds and
    dollars spent on them do not count there. Calls of models and insights are not copied: a copied proposal keeps its
    own usage and names no insights. Hidden checks of the run come along, and wait until they are admitted. The task,
    seed and device of the new run are still open. Raises `StoreError` if there is no such candidate, or the target is
    in use.

    Args:
        source: the store to copy from; only read, also while an engine writes it.
        target: the new file; it must not hold a run.
        candidate: an id, or a beginning of one that no other has.
    """
    if Path(source).absolute() == Path(target).absolute():
        raise StoreError(f"cannot fork {source} into itself; name another file")
    with Store.open(source, write=False) as old, old.database.snapshot():  # an engine may be writing it
        name = old.candidate(candidate).candidate.id
        family = {name} | ancestors(old, name)
        with Store.open(target, write=True) as new:
            if new.last_seq() or new.next_step() > FIRST_STEP or new.meta("run_id") is not None:
                raise StoreError(f"{target} holds a run already; fork into a file that does not exist")
            with new.database.transaction():
                _Copy(old.database, new.database, family).all()
                chain.sign_all(new.database)
                checksums.sign_all(new.database)
                new_run(new.database)
                hidden_checks.bring_along(old.database, new.database)
                write_meta(new.database, "forked_from", old.meta("run_id") or "unknown")
                write_meta(new.database, "forked_candidate", name)
    return len(family)


class _Copy:
    """The copy of one family within an open transaction of an empty store."""

    def __init__(self, old: Database, new: Database, family: set[str]) -> None:
        self._old, self._new = old, new
        self._run = read_meta(old, "run_id") or "unknown"
        rows = old.rows(f"SELECT {CANDIDATE_COLUMNS}, text FROM candidates ORDER BY rowid")
        self._family = [row for row in rows if row["id"] in family]
        self._steps = {row["born"]: step for step, row in enumerate(self._family, FIRST_STEP)}
        programs = {row["program_hash"] for row in self._family}
        found = (old.row("SELECT * FROM results WHERE step = ?", (step,)) for step in self._steps)
        self._results = {row["seq"]: row for row in found if row is not None}
        used = {row["evaluation"] for row in self._results.values()}
        self._evaluations = {
            row["seq"]: row
            for program in programs
            for row in old.rows(f"SELECT {EVALUATION_COLUMNS} FROM evaluations WHERE program_hash = ?", (program,))
            if row["candidate"] in family or row["seq"] in used
        }
        self._seqs = sorted(self._evaluations.keys() | self._results.keys())

    def all(self) -> None:
        """Copy candidates, proposals, edges and facts; a proposal without a result gets a lease."""
        for row in self._family:
            self._candidate(row)
        for row in self._family:
            self._proposal(row["born"])
        for seq in self._seqs:
            self._fact(seq)
        for step in self._steps.keys() - {row["step"] for row in self._results.values()}:
            self._new.execute(
                "INSERT INTO leases(step, owner, since) VALUES (?, NULL, ?)", (self._steps[step], time.time())
            )

    def _seq(self, old: int) -> int:
        return bisect_right(self._seqs, old)  # the newest copied fact that is not younger

    def _origin(self, row: sqlite3.Row, number: int) -> str:
        return row["origin"] or f"{self._run}:{number}"

    def _candidate(self, row: sqlite3.Row) -> None:
        text = self._old.row("SELECT * FROM texts WHERE hash = ?", (row["text"],))
        if text is None:
            raise StoreCorrupt(f"{self._old.path}: the source of candidate {row['id']} is missing")
        self._new.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", tuple(text))
        origin = self._origin(row, row["born"])
        self._insert("candidates", row, born=self._steps[row["born"]], origin=origin)

    def _proposal(self, step: int) -> None:
        row = self._old.row(f"SELECT {PROPOSAL_COLUMNS} FROM proposals WHERE step = ?", (step,))
        if row is None:
            raise StoreCorrupt(f"{self._old.path}: the proposal of step {step} is missing")
        origin, asked = self._origin(row, step), self._seq(row["asked_seq"])
        self._insert("proposals", row, step=self._steps[step], asked_seq=asked, origin=origin, insights="[]")
        ids = {member["id"] for member in self._family}
        for edge in self._old.rows("SELECT * FROM parents WHERE step = ?", (step,)):
            if edge["candidate"] in ids:  # all parents are; an inspiration may have stayed behind
                self._insert("parents", edge, step=self._steps[step])

    def _fact(self, seq: int) -> None:
        result, evaluation = self._results.get(seq), self._evaluations.get(seq)
        kind = EntryKind.EVALUATION if result is None else EntryKind.RESULT
        at = self._old.number("SELECT at FROM journal WHERE seq = ?", (seq,))
        self._new.execute(
            "INSERT INTO journal(seq, kind, at, session) VALUES (?, ?, ?, NULL)", (self._seq(seq), kind.value, at)
        )
        if evaluation is not None:
            self._insert(
                "evaluations",
                evaluation,
                seq=self._seq(seq),
                candidate=self._member(evaluation),
                origin=self._origin(evaluation, seq),
            )
        if result is not None:
            values = (self._seq(seq), self._steps[result["step"]], self._seq(result["evaluation"]))
            self._new.execute("INSERT INTO results VALUES (?, ?, ?)", values)

    def _member(self, evaluation: sqlite3.Row) -> str:
        """Return the family member of an evaluation; an earlier release may have made it for a duplicate outside."""
        same_program = [str(row["id"]) for row in self._family if row["program_hash"] == evaluation["program_hash"]]
        named = str(evaluation["candidate"])
        return named if named in same_program else same_program[0]

    def _insert(self, table: str, row: sqlite3.Row, **changed: object) -> None:
        values = {**{name: row[name] for name in row.keys()}, **changed}  # noqa: SIM118
        names, places = ", ".join(values), ", ".join("?" * len(values))
        self._new.execute(f"INSERT INTO {table}({names}) VALUES ({places})", tuple(values.values()))

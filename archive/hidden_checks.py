"""Hidden checks that a run has added, with the kernels that they broke: one transaction, and its reading."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from archive import checksums
from archive.database import Database
from archive.inbox import take_entry
from archive.journal import InboxEntry
from archive.records import INBOX_COLUMNS
from archive.writing import append_evaluation
from evokernel.records.candidate import clean
from evokernel.records.evaluation import Evaluation
from evokernel.records.hidden_check import HiddenCheck

CHECK = "hidden_check"
"""Kind of the entry of the inbox that holds one; it is taken in as it is made."""


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """A hidden check of a run."""

    seq: int
    """The fact from which on it counts."""
    check: HiddenCheck
    """Sizes, contents and reason."""
    operator: str
    """The operator that proposed it."""
    model: str
    """The model that answered; empty where none is named."""
    broke: tuple[str, ...]
    """Ids of the leading kernels that failed it when it was added."""


def add(
    database: Database,
    check: HiddenCheck,
    failed: Sequence[Evaluation],
    *,
    operator: str,
    model: str,
    step: int,
    session: int | None,
) -> tuple[InboxEntry, list[int]]:
    """Store a check as a fact, and then the verdicts on kernels that fail it, all or nothing.

    Returns the fact of the check, and the seqs of the verdicts.
    """
    payload = {**check.as_message(), "step": step, "model": model, "broke": [each.candidate_id for each in failed]}
    values = {"kind": CHECK, "payload": json.dumps(payload), "author": clean(operator), "created": time.time()}
    with database.transaction():
        number = checksums.add(database, "inbox", values)
        (row,) = database.rows(f"SELECT {INBOX_COLUMNS} FROM inbox WHERE id = ?", (number,))
        entry = take_entry(database, row, session=session)
        return entry, [append_evaluation(database, each, session=session) for each in failed]


def added(database: Database) -> tuple[StoredCheck, ...]:
    """Return the hidden checks that a run has added, oldest first."""
    rows = database.rows(
        "SELECT taken_seq, payload, author FROM inbox WHERE kind = ? AND taken_seq IS NOT NULL ORDER BY taken_seq",
        (CHECK,),
    )
    return tuple(_added(row["taken_seq"], row["payload"], author=row["author"]) for row in rows)


def _added(seq: int, text: str, *, author: str) -> StoredCheck:
    payload = json.loads(text)
    broke = tuple(map(str, payload.get("broke", ())))
    return StoredCheck(seq, HiddenCheck.from_message(payload), author, str(payload.get("model", "")), broke)

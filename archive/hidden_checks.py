"""Hidden checks that a run has added, with the kernels that they broke: one transaction, and its reading."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archive.file import checksums
from archive.file.database import Database
from archive.file.records import INBOX_COLUMNS
from archive.identity import read_meta, write_meta
from archive.inbox import take_entry
from archive.journal import InboxEntry
from archive.writing import append_evaluation
from evokernel.records.candidate import clean
from evokernel.records.evaluation import Evaluation
from evokernel.records.hidden_check import HiddenCheck

CHECK = "hidden_check"
"""Kind of the entry of the inbox that holds one; it is taken in as it is made."""
_FORKED = "forked_checks"
"""The value of a run that holds the checks which a fork brought along and no session has taken in."""


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
    step: int | None,
    session: int | None,
) -> tuple[InboxEntry, list[int]]:
    """Store a check as a fact, and then the verdicts on kernels that fail it, all or nothing.

    `step` is that of the operator, None where a fork brought the check along. Returns the fact of the check, and the
    seqs of the verdicts.
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
    return tuple(_added(row["taken_seq"], json.loads(row["payload"]), author=row["author"]) for row in rows)


def bring_along(old: Database, new: Database) -> None:
    """Note the checks of a run in its fork, where they wait for a session that admits them."""
    checks = [
        {**each.check.as_message(), "operator": each.operator, "model": each.model, "broke": []}
        for each in (*added(old), *brought_along(old))
    ]
    _keep(new, checks)


def brought_along(database: Database) -> tuple[StoredCheck, ...]:
    """Return the checks that a fork brought along and no session has taken in; their seq is 0."""
    return tuple(_added(0, each, author=each["operator"]) for each in _forked(database))


def settle(database: Database, check: HiddenCheck) -> None:
    """Drop a check that a fork brought along, once it is in force or refused."""
    digest = check.digest
    _keep(database, [each for each in _forked(database) if HiddenCheck.from_message(each).digest != digest])


def _forked(database: Database) -> list[dict[str, Any]]:
    return list(json.loads(read_meta(database, _FORKED) or "[]"))


def _keep(database: Database, checks: list[dict[str, Any]]) -> None:
    if checks or read_meta(database, _FORKED) is not None:
        write_meta(database, _FORKED, json.dumps(checks))


def _added(seq: int, payload: dict[str, Any], *, author: str) -> StoredCheck:
    broke = tuple(map(str, payload.get("broke", ())))
    return StoredCheck(seq, HiddenCheck.from_message(payload), author, str(payload.get("model", "")), broke)

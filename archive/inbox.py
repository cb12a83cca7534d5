"""Inbox: entries from people and other processes for a running engine, without its lock."""

import json
import sqlite3
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from archive.file import checksums, file_version
from archive.file.checksums import Values
from archive.file.database import Database, connect
from archive.file.records import INBOX_COLUMNS
from archive.journal import EntryKind, InboxEntry, inbox_entry
from archive.writing import append
from evokernel.errors import StoreError
from evokernel.records.candidate import clean


def put(path: Path, kind: str, payload: Any, *, author: str) -> int:
    """Append an entry to the inbox of a store, from any process at any time, and return its number.

    Raises `StoreError` if there is no store, it cannot be written, or the payload is not JSON.
    """
    try:
        text = json.dumps(payload)
    except (TypeError, ValueError) as error:
        raise StoreError(f"an inbox entry must be made of JSON values: {error}") from error
    file_version.refuse_unusable(path)
    database = connect(path, write=True)
    try:
        _refuse_other_schema(database)
        with database.transaction():
            values = {"kind": clean(kind), "payload": text, "author": clean(author), "created": time.time()}
            return checksums.add(database, "inbox", values)
    finally:
        database.close()


def _refuse_other_schema(database: Database) -> None:
    version = file_version.version_of(database)
    file_version.refuse_newer(database, version)
    if version != file_version.VERSION:
        raise StoreError(
            f"{database.path} has an old schema ({version}); resume the run once, which brings it up to date"
        )


def waiting(database: Database, *kinds: str) -> list[InboxEntry]:
    """Return the entries that no engine has taken in yet, oldest first, of some kinds or of all.

    Their seq is 0, and `at` is the time at which they were put in.
    """
    rows = database.rows("SELECT * FROM inbox WHERE taken_seq IS NULL ORDER BY id")
    return [inbox_entry(row, seq=0, at=row["created"]) for row in rows if not kinds or row["kind"] in kinds]


def taken(database: Database) -> set[int]:
    """Return the numbers of the entries that an engine has taken in."""
    return {row["id"] for row in database.rows("SELECT id FROM inbox WHERE taken_seq IS NOT NULL")}


def banned_programs(database: Database, first: int = 0, last: int = sys.maxsize) -> list[tuple[int, str]]:
    """Return the bans that an engine has taken in from one seq to another: each seq with the program's hash."""
    rows = database.rows(
        "SELECT i.taken_seq, c.program_hash FROM inbox i "
        "JOIN candidates c ON c.id = json_extract(i.payload, '$.candidate') "
        "WHERE i.kind = 'ban' AND i.taken_seq BETWEEN ? AND ? ORDER BY i.taken_seq",
        (first, last),
    )
    return [(row["taken_seq"], row["program_hash"]) for row in rows]


def answer_digests(database: Database) -> set[str]:
    """Return the digests of all answers from elsewhere that were ever handed in."""
    rows = database.rows("SELECT json_extract(payload, '$.digest') AS digest FROM inbox WHERE kind = 'answer'")
    return {row["digest"] for row in rows}


@dataclass(frozen=True, slots=True)
class HandedInSource:
    """A source that was handed in."""

    source: str
    """Its text."""
    language: str
    """Its language; empty for that of the run."""
    taken_seq: int | None
    """The fact by which an engine took it in; None while it waits."""


def handed_in_sources(database: Database) -> list[HandedInSource]:
    """Return every source that was handed in, oldest first."""
    rows = database.rows(
        "SELECT json_extract(payload, '$.source') AS source, json_extract(payload, '$.language') AS language, "
        "taken_seq FROM inbox WHERE kind = 'source' ORDER BY id"
    )
    return [HandedInSource(row["source"], row["language"] or "", row["taken_seq"]) for row in rows]


def look_text(database: Database, step: int) -> str | None:
    """Return what the operator of a step was shown when it asked for one more look, or None."""
    row = database.row(
        "SELECT json_extract(payload, '$.text') AS text FROM inbox WHERE kind = 'look' "
        "AND json_extract(payload, '$.step') = ? AND json_extract(payload, '$.look') IS NOT NULL",
        (step,),
    )
    return None if row is None else str(row["text"])


def take(database: Database, *, session: int | None) -> list[InboxEntry]:
    """Take in the waiting entries, oldest first, each as a fact of its own."""
    if database.row("SELECT 1 FROM inbox WHERE taken_seq IS NULL LIMIT 1") is None:
        return []
    found = []
    with database.transaction():
        for row in database.rows(f"SELECT {INBOX_COLUMNS} FROM inbox WHERE taken_seq IS NULL ORDER BY id"):
            found.append(take_entry(database, row, session=session))
    return found


def take_entry(database: Database, row: sqlite3.Row, *, session: int | None) -> InboxEntry:
    """Take in the entry in a row of `INBOX_COLUMNS`, as a fact, within the open transaction."""
    seq = append(database, EntryKind.INBOX, partial(_taken, row), session=session)
    checksums.change(database, "inbox", row["id"], "taken_seq = ?", (seq,))
    return inbox_entry(row, seq=seq, at=database.number("SELECT at FROM journal WHERE seq = ?", (seq,)))


def _taken(row: sqlite3.Row, seq: int) -> dict[str, Values]:
    return {"inbox": (*tuple(row)[:-1], seq)}

"""The inbox: what people and other processes hand to a running engine, without its lock."""

import json
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from archive import checksums, schema
from archive.checksums import Values
from archive.database import Database, connect
from archive.journal import EntryKind, InboxEntry, inbox_entry
from archive.records import INBOX_COLUMNS
from archive.writing import append
from evokernel.errors import StoreError
from evokernel.records.candidate import clean


def put(path: Path, kind: str, payload: Any, *, author: str) -> int:
    """Append an entry to the inbox of a store, from any process at any time, and return its number.

    Raises:
        StoreError: there is no store, it cannot be written, or the payload is not JSON.
    """
    try:
        text = json.dumps(payload)
    except (TypeError, ValueError) as error:
        raise StoreError(f"an inbox entry must be made of JSON values: {error}") from error
    schema.look_first(path)
    database = connect(path, write=True)
    try:
        _refuse_other_schema(database)
        with database.transaction():
            values = {"kind": clean(kind), "payload": text, "author": clean(author), "created": time.time()}
            return checksums.add(database, "inbox", values)
    finally:
        database.close()


def _refuse_other_schema(database: Database) -> None:
    version = schema.version_of(database)
    schema.refuse_newer(database, version)
    if version != schema.VERSION:
        raise StoreError(
            f"{database.path} has an old schema ({version}); resume the run once, which brings it up to date"
        )


def take(database: Database, *, session: int | None) -> list[InboxEntry]:
    """Take in what waits, oldest first, each entry as a fact of its own."""
    if database.row("SELECT 1 FROM inbox WHERE taken_seq IS NULL LIMIT 1") is None:
        return []
    taken = []
    with database.transaction():
        for row in database.rows(f"SELECT {INBOX_COLUMNS} FROM inbox WHERE taken_seq IS NULL ORDER BY id"):
            seq = append(database, EntryKind.INBOX, partial(_taken, row), session=session)
            checksums.change(database, "inbox", row["id"], "taken_seq = ?", (seq,))
            at = database.number("SELECT at FROM journal WHERE seq = ?", (seq,))
            taken.append(inbox_entry(row, seq=seq, at=at))
    return taken


def _taken(row: sqlite3.Row, seq: int) -> dict[str, Values]:
    return {"inbox": (*tuple(row)[:-1], seq)}

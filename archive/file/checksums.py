"""Checksums of the rows that are not facts: most of them are updated in place.

A checksum is the first 16 bytes of the SHA-256 of a tuple as `ascii` spells it: the name of the table, then the values
as SQLite returns them. It shows damage and changes by hand. It does not stop a forger: there is no secret.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from archive.file.database import Database
from archive.file.records import INBOX_COLUMNS
from evokernel.errors import StoreCorrupt

Values = tuple[object, ...]
CHECKED = {
    "meta": "key, value",
    "sessions": "id, pid, host, started, last_seen, seconds",
    "leases": "step, owner, since",
    "inbox": INBOX_COLUMNS,
    "calls": (
        "number, step, ordinal, island, operator, parents, insights, role, model, key, sample, parameters, prompt, "
        "reserved_tokens, reserved_usd, at, session, status, reply, answered_by, prompt_tokens, completion_tokens, "
        "cost_usd, duration_s"
    ),
    "remarks": "id, at, session, kind, step, candidate, text, detail",
}
"""Columns of each table's checksum, the key first. A later column joins a list only where it is not at its default, or
old checksums would be wrong."""
_SIZE_BYTES = 16


def digest_of(values: Values) -> bytes:
    """Return the hash of nested tuples of text, numbers, bytes and None.

    `ascii` spells them alike in every version of Python, tells all of them apart, and takes half the time of JSON.
    """
    return hashlib.sha256(ascii(values).encode()).digest()[:_SIZE_BYTES]


def checksum(table: str, values: Values) -> bytes:
    """Return the checksum of a row: the values of its columns in `CHECKED`."""
    return digest_of((table, *values))


def add(database: Database, table: str, values: Mapping[str, object]) -> int:
    """Insert a row with a number of its own and its checksum, within the open transaction, and return the number."""
    places = ", ".join("?" * len(values))
    key = database.execute(f"INSERT INTO {table}({', '.join(values)}) VALUES ({places})", tuple(values.values()))
    _sign(database, table, key)
    return key


def change(database: Database, table: str, key: int, changes: str, values: Values) -> None:
    """Update a row and its checksum within the open transaction.

    A row that did not fit its checksum before gets no new one, so that `verify` still names it.
    """
    fits = _fits(database, table, key)
    database.execute(f"UPDATE {table} SET {changes} WHERE {_key(table)} = ?", (*values, key))
    if fits:
        _sign(database, table, key)


def refuse_changed(database: Database, table: str, row: Values, *, stored: bytes) -> None:
    """Raise `StoreCorrupt` for a row that does not fit its checksum."""
    if stored != checksum(table, row):
        raise StoreCorrupt(f"{database.path}: {_complaint(table, row[0])}; `evokernel verify` looks the store over")


def sign_all(database: Database) -> None:
    """Write the checksums of all rows as they are now, within the open transaction."""
    for table in CHECKED:
        sql = f"UPDATE {table} SET checksum = ? WHERE {_key(table)} = ?"
        for page in _rows(database, table):
            database.insert_many(sql, [(checksum(table, row[:-1]), row[0]) for row in page])


def mismatches(database: Database) -> list[str]:
    """Return one line for each row that does not fit its checksum."""
    return [
        _complaint(table, row[0])
        for table in CHECKED
        for page in _rows(database, table)
        for row in page
        if row[-1] != checksum(table, row[:-1])
    ]


def _rows(database: Database, table: str) -> Iterator[list[tuple[Any, ...]]]:
    for page in database.pages(f"SELECT {CHECKED[table]}, checksum FROM {table}", _key(table)):
        yield [tuple(row) for row in page]


def _fits(database: Database, table: str, key: int) -> bool:
    row = _row(database, table, key)
    return row is not None and row[-1] == checksum(table, row[:-1])


def _sign(database: Database, table: str, key: int) -> None:
    row = _row(database, table, key)
    if row is not None:
        database.execute(f"UPDATE {table} SET checksum = ? WHERE {_key(table)} = ?", (checksum(table, row[:-1]), key))


def _row(database: Database, table: str, key: int) -> tuple[Any, ...] | None:
    row = database.row(f"SELECT {CHECKED[table]}, checksum FROM {table} WHERE {_key(table)} = ?", (key,))
    return None if row is None else tuple(row)


def _key(table: str) -> str:
    return CHECKED[table].partition(",")[0]


def _complaint(table: str, key: object) -> str:
    return f"the row {key} of {table} is not what was written: it was damaged, or altered by hand"

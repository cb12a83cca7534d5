"""Verification of a store: damage, gaps, facts without content."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from archive.calls import Calls
from archive.file import chain, checksums, file_version
from archive.file.database import Database
from archive.file.migrations import STEPS
from archive.file.texts import unpack
from archive.insights import KNOWN
from evokernel.errors import StoreCorrupt, StoreError
from evokernel.records.candidate import Candidate

_SQL = Path(__file__).with_name("impossible.sql").read_text(encoding="utf-8").replace("@KNOWN@", KNOWN)
TEXTS = 200
"""Rows with a text that are in memory at once."""
_IMPOSSIBLE = dict(query.split("\n", 1) for query in _SQL.split("-- ")[1:])  # by what is said of each row that it finds


def verify(database: Database) -> list[str]:
    """Return what is wrong with a store, one line each; nothing for a sound one. Reads every row and every text."""
    found = [
        line
        for check in (_structure, _definitions, _encodings, _contradictions, chain.mismatches, checksums.mismatches,
                      _calls, _texts, _candidates)
        for line in _lines(check, database)
    ]  # fmt: skip
    return list(dict.fromkeys(found))


def _lines(check: Callable[[Database], list[str]], database: Database) -> list[str]:
    """Return what a check finds; where damage keeps it from reading, that is what it finds."""
    try:
        return check(database)
    except StoreError as error:
        return [str(error)]


def _structure(database: Database) -> list[str]:
    found = [row[0] for row in database.rows("PRAGMA integrity_check(20)") if row[0] != "ok"]
    found += [
        f"a row of {row['table']} (rowid {row['rowid']}) refers to a missing row of {row['parent']}"
        for row in database.rows("PRAGMA foreign_key_check")
    ]
    if int(database.number("PRAGMA user_version")) != file_version.VERSION:
        found.append("the schema version is not that of this release")
    return found


def _definitions(database: Database) -> list[str]:
    """Compare tables and indexes with those of a new store; the first release kept a table of its migrations beside."""
    sql = (
        "SELECT name, type, tbl_name, sql FROM sqlite_master "
        "WHERE name NOT LIKE 'sqlite_%' AND tbl_name <> '_sqlite_migrations' ORDER BY name"
    )
    with closing(Database(sqlite3.connect(":memory:", isolation_level=None), database.path, writable=True)) as fresh:
        fresh.connection.row_factory = sqlite3.Row
        for step in STEPS:
            step(fresh)
        wanted, there = ({row[0]: tuple(row) for row in each.rows(sql)} for each in (fresh, database))
    return [
        f"the definition of {name} is not that of a store"
        for name in dict.fromkeys((*wanted, *there))
        if wanted.get(name) != there.get(name)
    ]


def _encodings(database: Database) -> list[str]:
    """Find text that is not UTF-8, which would end every query that meets it."""
    found = []
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for table in [row[0] for row in database.rows(tables)]:
        columns = database.rows(f"PRAGMA table_info({table})")
        key = ", ".join(f"CAST({each['name']} AS BLOB)" for each in columns if each["pk"])
        for column in [each["name"] for each in columns if each["type"] == "TEXT"]:
            for row in database.rows(f"SELECT CAST({column} AS BLOB), {key} FROM {table}"):
                try:
                    (row[0] or b"").decode()
                except UnicodeDecodeError:
                    name = "/".join(part.decode(errors="replace") for part in row[1:])
                    found.append(f"column {column} of the row {name} of {table} is not text")
    return found


def _contradictions(database: Database) -> list[str]:
    found: list[str] = []
    for message, sql in _IMPOSSIBLE.items():
        found += [message.format(row[0]) for row in database.rows(f"{sql} LIMIT 20")]
    return found


def _calls(database: Database) -> list[str]:
    found = []
    for row in database.rows("SELECT number FROM calls ORDER BY number"):
        try:
            Calls(database).call(row["number"])
        except StoreCorrupt as error:
            found.append(f"call {row['number']} cannot be read: {error}")
    return found


def _texts(database: Database) -> list[str]:
    found = []
    for page in database.pages("SELECT hash, size_bytes, body FROM texts", "hash", page_rows=TEXTS):
        for row in page:
            try:
                data = unpack(row["body"]).encode()
                if (hashlib.sha256(data).hexdigest(), len(data)) != (row["hash"], row["size_bytes"]):
                    found.append(f"text {row['hash']} is not what its hash says")
            except StoreCorrupt:
                found.append(f"text {row['hash']} cannot be unpacked")
    return found


def _candidates(database: Database) -> list[str]:
    found = []
    select = "SELECT c.rowid, c.id, c.language, t.body FROM candidates c JOIN texts t ON t.hash = c.text"
    for page in database.pages(select, "c.rowid", page_rows=TEXTS):
        for row in page:
            with suppress(StoreCorrupt):  # reported with the text
                if Candidate(unpack(row["body"]), row["language"]).id != row["id"]:
                    found.append(f"candidate {row['id']} is not what its id says")
    return found

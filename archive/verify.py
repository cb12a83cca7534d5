"""Verification of a store: damage, gaps, facts without content."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress

from archive.calls import Calls
from archive.file import chain, checksums, file_version
from archive.file.database import Database
from archive.file.migrations import STEPS
from archive.file.texts import unpack
from archive.insights import KNOWN
from archive.journal import EntryKind
from evokernel.errors import StoreCorrupt, StoreError
from evokernel.records.candidate import Candidate
from evokernel.records.llm import CallStatus

_IMPOSSIBLE = {
    "fact {} has no content": (
        f"SELECT seq FROM journal WHERE CASE kind "
        f"WHEN '{EntryKind.RESULT}' THEN seq NOT IN (SELECT seq FROM results WHERE evaluation IS NOT NULL) "
        f"WHEN '{EntryKind.BARREN}' THEN seq NOT IN (SELECT seq FROM results WHERE evaluation IS NULL) "
        f"WHEN '{EntryKind.INSIGHT}' THEN seq NOT IN (SELECT i.seq FROM insights i JOIN results r "
        "ON r.seq = i.seq AND r.step = i.step AND r.evaluation IS NULL) "
        f"WHEN '{EntryKind.EVALUATION}' THEN seq NOT IN (SELECT seq FROM evaluations) "
        f"WHEN '{EntryKind.INBOX}' THEN seq NOT IN (SELECT taken_seq FROM inbox WHERE taken_seq IS NOT NULL) "
        f"WHEN '{EntryKind.CONFIG_EDIT}' THEN seq NOT IN (SELECT seq FROM config_edits) "
        f"WHEN '{EntryKind.STOP}' THEN seq NOT IN (SELECT seq FROM stops) ELSE 1 END"
    ),
    "the journal skips from fact {} on": (
        "SELECT before + 1 FROM (SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq) AS before FROM journal) "
        "WHERE seq <> before + 1"
    ),
    "step {} has neither a result nor a lease": (
        "SELECT step FROM proposals WHERE step NOT IN (SELECT step FROM results) "
        "AND step NOT IN (SELECT step FROM leases)"
    ),
    "step {} has a result and a lease": "SELECT step FROM leases WHERE step IN (SELECT step FROM results)",
    "the result of step {} has a candidate but no evaluation, or the reverse": (
        "SELECT r.step FROM results r JOIN proposals p ON p.step = r.step "
        "WHERE (p.candidate IS NULL) <> (r.evaluation IS NULL)"
    ),
    "the result of step {} is an evaluation of another program": (
        "SELECT r.step FROM results r JOIN proposals p ON p.step = r.step JOIN candidates c ON c.id = p.candidate "
        "JOIN evaluations e ON e.seq = r.evaluation WHERE e.program_hash <> c.program_hash"
    ),
    "the result of step {} uses an evaluation that came later": "SELECT step FROM results WHERE evaluation > seq",
    "insight {} is not what the journal says it is": (
        f"SELECT seq FROM insights WHERE seq NOT IN (SELECT seq FROM journal WHERE kind = '{EntryKind.INSIGHT}')"
    ),
    "step {} was made with insights that are not in the store": (
        "SELECT p.step FROM proposals p WHERE p.insights <> '[]' AND (NOT json_valid(p.insights) OR EXISTS "
        "(SELECT 1 FROM json_each(CASE WHEN json_valid(p.insights) THEN p.insights ELSE '[]' END) e "
        f"WHERE e.value NOT IN (SELECT seq FROM ({KNOWN}) WHERE seq IS NOT NULL)))"
    ),
    "call {} has ended without a reply, or is open with one": (
        f"SELECT number FROM calls WHERE (status = '{CallStatus.OPEN}') <> (reply IS NULL)"
    ),
    "candidate {} was born in a step that did not propose it": (
        "SELECT id FROM candidates WHERE NOT EXISTS "
        "(SELECT 1 FROM proposals p WHERE p.step = candidates.born AND p.candidate = candidates.id)"
    ),
}


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
    found, last = [], ""
    while page := database.rows(
        "SELECT hash, size_bytes, body FROM texts WHERE hash > ? ORDER BY hash LIMIT 200", (last,)
    ):
        for row in page:
            try:
                data = unpack(row["body"]).encode()
                if (hashlib.sha256(data).hexdigest(), len(data)) != (row["hash"], row["size_bytes"]):
                    found.append(f"text {row['hash']} is not what its hash says")
            except StoreCorrupt:
                found.append(f"text {row['hash']} cannot be unpacked")
        last = page[-1]["hash"]
    return found


def _candidates(database: Database) -> list[str]:
    found, last = [], 0
    sql = (
        "SELECT c.rowid, c.id, c.language, t.body FROM candidates c JOIN texts t ON t.hash = c.text "
        "WHERE c.rowid > ? ORDER BY c.rowid LIMIT 200"
    )
    while page := database.rows(sql, (last,)):
        for row in page:
            with suppress(StoreCorrupt):  # reported with the text
                if Candidate(unpack(row["body"]), row["language"]).id != row["id"]:
                    found.append(f"candidate {row['id']} is not what its id says")
        last = page[-1]["rowid"]
    return found

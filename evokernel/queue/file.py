"""The file of a queue: nights, entries and slices in SQLite. Every change is one transaction."""

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Self

from archive.file.database import Database, connect, folder_for
from evokernel.errors import ConfigError, StoreError
from evokernel.queue.records import (
    EntryState,
    EntryUsage,
    QueueEntry,
    QueueNight,
    QueueSlice,
    SharedBudget,
    SharedUsage,
    SliceLimits,
    StoreFacts,
)

KEPT_NIGHTS = 10
"""Nights that are remembered after their end."""
_VERSION = 1
_APPLICATION = 0x65767175
_TABLES = (
    "CREATE TABLE nights (id INTEGER PRIMARY KEY AUTOINCREMENT, added REAL NOT NULL, until REAL, hours REAL, "
    "gpu_hours REAL, dollars REAL, ended TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "night INTEGER NOT NULL REFERENCES nights ON DELETE CASCADE, config TEXT NOT NULL, store TEXT NOT NULL, "
    "settings TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', faults INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE slices (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE, began REAL NOT NULL, limit_s REAL NOT NULL, "
    "limit_usd REAL, gpus INTEGER NOT NULL, before TEXT NOT NULL, process TEXT NOT NULL DEFAULT '', "
    "seconds REAL NOT NULL DEFAULT 0, usd REAL NOT NULL DEFAULT 0, results INTEGER NOT NULL DEFAULT 0, "
    "gain REAL NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX slices_of ON slices(entry)",
)


class QueueFile:
    """An open queue; a context manager. Several processes may have it open; every method raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, path: Path, *, create: bool = False) -> Self:
        """Open a queue for writing; with `create`, make the file where there is none.

        Raises `StoreError` if it is missing, damaged, no queue, or of a later version.
        """
        if not create and not path.exists():
            raise StoreError(f"there is no queue at {path}; `evokernel queue add CONFIG` makes one")
        folder_for(path)
        database = connect(path, write=True, create=create)
        try:
            _prepare(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        with suppress(StoreError):  # all is in the file already
            self.database.close()

    @property
    def logs(self) -> Path:
        """The folder of the entries' last output."""
        return self.database.path.with_name(self.database.path.name + "-logs")

    # -- nights and entries

    def add(
        self, searches: Sequence[tuple[Path, Path, Sequence[str]]], budget: SharedBudget, *, at: float | None = None
    ) -> QueueNight:
        """Add a night of (config, store, settings), and forget the oldest ended ones.

        Raises `ConfigError` if two searches would write one store, or another entry in the queue does.
        """
        added = time.time() if at is None else at
        with self.database.transaction():
            taken = {
                str(row["store"]): f"entry {row['id']}"
                for row in self.database.rows("SELECT id, store FROM entries WHERE state IN ('waiting', 'paused')")
            }
            night = self.database.execute(
                "INSERT INTO nights (added, until, hours, gpu_hours, dollars) VALUES (?, ?, ?, ?, ?)",
                (added, *astuple(budget)),
            )
            for config, store, settings in searches:
                if str(store) in taken:
                    raise ConfigError(
                        f"{config} writes {store}, and so does {taken[str(store)]}; "
                        "remove that one, or give the config a store of its own"
                    )
                taken[str(store)] = str(config)
                self.database.execute(
                    "INSERT INTO entries (night, config, store, settings, state) VALUES (?, ?, ?, ?, ?)",
                    (night, str(config), str(store), json.dumps([*settings]), EntryState.WAITING),
                )
            forgotten = self._forget()
        for entry in forgotten:
            with suppress(OSError):
                self.log(entry).unlink(missing_ok=True)
        return QueueNight(night, added, budget)

    def _forget(self) -> list[int]:
        old = "(SELECT id FROM nights WHERE ended <> '' ORDER BY id DESC LIMIT -1 OFFSET ?)"
        rows = self.database.rows(f"SELECT id FROM entries WHERE night IN {old}", (KEPT_NIGHTS,))
        self.database.execute(f"DELETE FROM nights WHERE id IN {old}", (KEPT_NIGHTS,))
        return [row["id"] for row in rows]

    def log(self, entry: int) -> Path:
        """Return the file of the last output of an entry."""
        return self.logs / f"entry-{entry}.log"

    def nights(self, *, running: bool = False) -> list[QueueNight]:
        """Return the nights, oldest first; with `running`, those that have not ended."""
        where = "WHERE ended = ''" if running else ""
        return [
            QueueNight(
                row["id"],
                row["added"],
                SharedBudget(row["until"], row["hours"], row["gpu_hours"], row["dollars"]),
                row["ended"],
            )
            for row in self.database.rows(f"SELECT * FROM nights {where} ORDER BY id")
        ]

    def entries(self, night: int | None = None) -> list[QueueEntry]:
        """Return the entries of a night, or all; without those that were removed."""
        chosen, values = ("", ()) if night is None else ("AND night = ?", (night,))
        rows = self.database.rows(f"SELECT * FROM entries WHERE state <> 'removed' {chosen} ORDER BY id", values)
        return [_entry(row) for row in rows]

    def entry(self, number: int) -> QueueEntry:
        """Return one entry. Raises `ConfigError` where there is none."""
        row = self.database.row("SELECT * FROM entries WHERE id = ?", (number,))
        if row is None:
            raise ConfigError(f"there is no entry {number}; `evokernel queue list` shows their numbers")
        return _entry(row)

    def set_state(self, entry: int, state: EntryState) -> None:
        """Change the state of an entry as a person wants it; its reason and its faults are forgotten."""
        self.database.execute("UPDATE entries SET state = ?, reason = '', faults = 0 WHERE id = ?", (state, entry))

    def note(self, entry: QueueEntry) -> None:
        """Note state, reason and faults of an entry, unless a person has taken it back meanwhile."""
        self.database.execute(
            "UPDATE entries SET state = ?, reason = ?, faults = ? WHERE id = ? AND state = 'waiting'",
            (entry.state, entry.reason, entry.faults, entry.id),
        )

    def end_night(self, night: int, reason: str) -> None:
        """End a night: its waiting entries are done."""
        with self.database.transaction():
            self.database.execute("UPDATE nights SET ended = ? WHERE id = ?", (reason, night))
            self.database.execute(
                "UPDATE entries SET state = 'done', reason = ? WHERE night = ? AND state IN ('waiting', 'paused')",
                (reason, night),
            )

    # -- slices

    def begin_slice(self, entry: int, limits: SliceLimits, before: StoreFacts, *, at: float) -> int:
        """Note that a slice begins, before its process does, and return its number."""
        return self.database.execute(
            "INSERT INTO slices (entry, began, limit_s, limit_usd, gpus, before) VALUES (?, ?, ?, ?, ?, ?)",
            (entry, at, limits.seconds, limits.dollars, limits.gpus, json.dumps(astuple(before))),
        )

    def beat(self, number: int, seconds: float, *, process: str) -> None:
        """Note how long an open slice has lasted."""
        self.database.execute("UPDATE slices SET seconds = ?, process = ? WHERE id = ?", (seconds, process, number))

    def open_slices(self) -> list[QueueSlice]:
        """Return the slices without an end, oldest first."""
        return [
            QueueSlice(
                row["id"],
                row["entry"],
                SliceLimits(row["limit_s"], row["limit_usd"], row["gpus"]),
                row["seconds"],
                row["process"],
                StoreFacts(*json.loads(row["before"])),
            )
            for row in self.database.rows("SELECT * FROM slices WHERE outcome = '' ORDER BY id")
        ]

    def end_slice(
        self, ended: QueueSlice, *, seconds: float, after: StoreFacts, gain: float, entry: QueueEntry, outcome: str
    ) -> None:
        """Note the end of a slice, and what becomes of its entry unless a person has changed that meanwhile."""
        with self.database.transaction():
            self.database.execute(
                "UPDATE slices SET seconds = ?, usd = ?, results = ?, gain = ?, outcome = ? WHERE id = ?",
                (
                    seconds,
                    max(0.0, after.dollars - ended.before.dollars),
                    max(0, after.results - ended.before.results),
                    gain,
                    outcome,
                    ended.id,
                ),
            )
            self.note(entry)

    def use(self, night: int) -> SharedUsage:
        """Return what a night has used; an open slice counts with the most that it may use."""
        row = self.database.row(
            "SELECT sum(s) AS seconds, sum(s * gpus) AS gpu_seconds, sum(u) AS usd FROM ("
            "SELECT gpus, CASE outcome WHEN '' THEN max(limit_s, seconds) ELSE seconds END AS s, "
            "CASE outcome WHEN '' THEN coalesce(limit_usd, 0) ELSE usd END AS u "
            "FROM slices JOIN entries ON entries.id = slices.entry WHERE night = ?)",
            (night,),
        )
        return (
            SharedUsage() if row is None else SharedUsage(row["seconds"] or 0, row["gpu_seconds"] or 0, row["usd"] or 0)
        )

    def use_of(self, entry: int) -> EntryUsage:
        """Return what an entry has used and gained."""
        rows = self.database.rows("SELECT * FROM slices WHERE entry = ? ORDER BY id DESC", (entry,))
        return EntryUsage(
            sum(row["seconds"] for row in rows),
            sum(row["usd"] for row in rows),
            tuple((row["seconds"] / 3600, row["gain"]) for row in rows if row["results"]),
        )


def _entry(row: sqlite3.Row) -> QueueEntry:
    return QueueEntry(
        row["id"],
        row["night"],
        Path(row["config"]),
        Path(row["store"]),
        tuple(json.loads(row["settings"])),
        EntryState(row["state"]),
        row["reason"],
        row["faults"],
    )


def _prepare(database: Database) -> None:
    """Make the tables of a new file. Raises `StoreError` for another kind of file or a later version."""
    database.execute("PRAGMA synchronous = FULL")  # a few writes a minute: a power cut must not take a slice back
    with database.transaction():
        version, kind = database.number("PRAGMA user_version"), database.number("PRAGMA application_id")
        if version == 0 and kind == 0 and not database.rows("SELECT 1 FROM sqlite_master LIMIT 1"):
            for sql in _TABLES:
                database.execute(sql)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
        elif kind != _APPLICATION:
            raise StoreError(f"{database.path} is no queue: name another file with --queue")
        elif version > _VERSION:
            raise StoreError(f"{database.path} was written by a later evokernel: update this one")
    database.rows("PRAGMA journal_mode = WAL")

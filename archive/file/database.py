"""One SQLite connection: opening it, transactions, and the translation of SQLite's errors into ours."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from archive.file.lock import unavailable
from evokernel.errors import StoreCorrupt, StoreError, StoreUnavailable

BUSY_MS = 30_000
_FILLING_S = 2.0
"""The longest that a reader waits for an empty file to be written, in s."""
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = NORMAL",  # a killed process loses nothing; a power cut may take the last results, never the file
    "cache_size = -16384",
    "wal_autocheckpoint = 4000",  # pages; hashes touch the whole file, a longer log writes each page back less often
    "temp_store = MEMORY",
)
_NAMES = {
    name: getattr(sqlite3, f"SQLITE_{name}") for name in ("FULL", "IOERR", "READONLY", "CANTOPEN", "BUSY", "PERM")
}


_PAGE_ROWS = 500
_BEGINNING = b"SQLite format 3\0"
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged file: an error of SQLite whose message quotes what is not UTF-8 comes as the second."""


def translated(error: Exception, path: Path) -> StoreError:
    """Return the error of this package for one of SQLite's, with what happened and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, UnicodeDecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(
            f"{path} is damaged or is not a store ({error}); keep a copy of it, "
            "then restore a backup or start over with --fresh, which moves it aside"
        )
    advice = {
        _NAMES["FULL"]: "the disk is full: free some space and run the same command again; no finished result is lost",
        _NAMES["IOERR"]: "the disk refused a write or read (full, over quota, made read-only, or failing): "
        "see to it and run the same command again; no finished result is lost",
        _NAMES["READONLY"]: "it is read-only: make the file, the one ending in -wal and their folder writable, "
        "or name another store",
        _NAMES["CANTOPEN"]: "it cannot be opened: check that the folder exists and that you may read and write there; "
        "on a read-only disk, copy the file and the one ending in -wal beside it to a writable folder",
        _NAMES["PERM"]: "access was denied: check the permissions of the file and its folder",
        _NAMES["BUSY"]: f"another process kept it locked for {BUSY_MS // 1000} s: end that process, or try again",
    }.get(code)
    if advice is not None:
        return StoreUnavailable(f"store {path}: {error}; {advice}")
    return StoreError(f"store {path}: {error}; this is not expected; `evokernel verify` checks the file")


class Database:
    """A connection with explicit transactions. Every method raises `StoreError`, never an error of sqlite3.

    `live` says whether it sees what others write from now on; a copy, or a file taken as finished, does not.
    `power_safe` makes transactions about money reach the disk before they return.
    `newest` is the seq and the digest of the newest journal entry, where this connection has written it.
    `tidies` says whether closing removes the empty log of SQLite, which a reader leaves, unless others need it.
    """

    __slots__ = ("_connection", "live", "newest", "path", "power_safe", "tidies", "writable")

    def __init__(self, connection: sqlite3.Connection, path: Path, *, writable: bool, live: bool = True) -> None:
        self._connection = connection
        self.path = path
        self.writable = writable
        self.live = live
        self.power_safe = False
        self.newest: tuple[int, bytes] | None = None
        self.tidies = False

    @property
    def connection(self) -> sqlite3.Connection:
        """The bare connection, for migrations and backups; use it inside `translation`."""
        return self._connection

    @contextmanager
    def translation(self) -> Iterator[None]:
        """Turn errors of sqlite3 raised in the block into `StoreError`."""
        try:
            yield
        except SQLITE_ERRORS as error:
            raise translated(error, self.path) from error

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one statement and return the rowid of the last insert."""
        try:
            return self._connection.execute(sql, values).lastrowid or 0
        except SQLITE_ERRORS as error:
            raise translated(error, self.path) from error

    def changed(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        try:
            return self._connection.execute(sql, values).rowcount
        except SQLITE_ERRORS as error:
            raise translated(error, self.path) from error

    def insert_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for each row."""
        with self.translation():
            self._connection.executemany(sql, rows)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except SQLITE_ERRORS as error:
            raise translated(error, self.path) from error

    def pages(
        self, select: str, key: str, *, after: object = None, page_rows: int = _PAGE_ROWS
    ) -> Iterator[list[sqlite3.Row]]:
        """Yield the rows of a query by a key, which it selects first, a page at a time; no cursor stays open between.

        `after` leaves out rows up to a key. Raises `StoreCorrupt` where a damaged file gives rows out of their order:
        it would begin again at an earlier one, for ever.
        """
        where, last = ("", ()) if after is None else (f"WHERE {key} > ?", (after,))
        while page := self.rows(f"{select} {where} ORDER BY {key} LIMIT {page_rows}", last):
            if last and not self.number("SELECT ? > ?", (page[-1][0], *last)):
                raise StoreCorrupt(
                    f"{self.path}: rows do not come in the order of {key}, so the file is damaged: `{select[:60]}...`"
                )
            yield page
            where, last = f"WHERE {key} > ?", (page[-1][0],)

    def row(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        found = self.rows(sql, values)
        return found[0] if found else None

    def number(self, sql: str, values: Sequence[object] = ()) -> float:
        """Return the single number a query gives, 0 for NULL or no row."""
        found = self.row(sql, values)
        return (found[0] or 0) if found else 0

    def transaction(self) -> "_Transaction":
        """Make the block all-or-nothing; the write lock is taken at its start."""
        return _Transaction(self)

    @contextmanager
    def money_transaction(self) -> Iterator[None]:
        """Make the block all-or-nothing; where `power_safe`, no power cut takes it back, nor what came before it."""
        if not self.power_safe:
            with self.transaction():
                yield
            return
        self.execute("PRAGMA synchronous = FULL")
        try:
            with self.transaction():
                yield
        finally:
            self.execute("PRAGMA synchronous = NORMAL")

    def roll_back(self) -> None:
        """Undo the open transaction, if there still is one."""
        self.newest = None
        with suppress(*SQLITE_ERRORS):  # SQLite has often rolled back already; the first error is the one to report
            self._connection.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every query of the block see one state of the file, whatever others write meanwhile.

        A nested block sees the state of the outer one.
        """
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; the last one folds the write-ahead log into the file."""
        with self.translation():
            self._connection.close()
        if self.tidies:
            _tidy(self.path)


class _Transaction:
    """A block that is all-or-nothing. A class, since a generator takes half as long again as an empty block."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._database.roll_back()
            return
        try:
            self._database.execute("COMMIT")
        except BaseException:
            self._database.roll_back()
            raise


def connect(path: Path, *, write: bool, create: bool = False) -> Database:
    """Open a file and check that it is sound.

    Args:
        write: open for writing.
        create: make the file where there is none (only with `write`).

    Raises:
        StoreCorrupt: the file is damaged, no database, or empty.
        StoreError: it is missing or cannot be opened, or only its log is left.
    """
    size = refuse_unfit(path)
    if not create and size is None:
        raise StoreError(f"there is no store at {path}; check the name, or start a run that writes one")
    if not create and not size and (write or not _filled(path)):
        raise StoreCorrupt(
            f"{path} is empty, 0 bytes: restore a backup if it held a run or a queue; else remove it, and start anew"
        )
    mode = "ro" if not write else "rwc" if create else "rw"
    has_log = _has_log(path)
    try:
        found = _checked(path, f"mode={mode}", write=write)
        found.tidies = not write and not has_log
        return found
    except SQLITE_ERRORS as error:
        # Reading a log needs a shared-memory file, which cannot be made in a read-only folder. Without a log it is not
        # needed.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if not write and code in (_NAMES["CANTOPEN"], _NAMES["READONLY"]) and not _has_log(path):
            return _immutable(path)
        raise translated(error, path) from error


def _filled(path: Path) -> bool:
    """Wait a little for an empty file to be written: a run makes it a moment before it begins its store in it."""
    until = time.monotonic() + _FILLING_S
    while not refuse_unfit(path) and time.monotonic() < until:
        time.sleep(0.02)
    return bool(refuse_unfit(path))


def refuse_unfit(path: Path) -> int | None:
    """Return the size of the file at the path, None for no file; refuse what SQLite would accept or delete in silence.

    SQLite removes a log beside an empty or missing file as a left-over; for a store that log holds results.

    Raises:
        StoreCorrupt: the file was never a store.
        StoreError: the path is a folder, cannot be looked at, or only the log of a store is left.
    """
    try:
        size = path.stat().st_size if path.exists() else None
        if size is not None and not path.is_file():
            what = "a folder" if path.is_dir() else "no ordinary file"
            raise StoreError(f"{path} is {what}, and a store is one file: name another, for example {path}.db")
        refuse_foreign(path)
        if not size and _has_log(path):
            state = "is missing" if size is None else "is empty"
            raise StoreError(
                f"{path} {state}, but {path.name}-wal beside it is not, and holds results: put the file back that it "
                "belongs to, or start over with --fresh, which moves the log aside"
            )
    except OSError as error:
        raise StoreError(f"cannot look at {path}: {error.strerror}; check the permissions of its folder") from error
    return size


def refuse_foreign(path: Path) -> None:
    """Raise `StoreCorrupt` for a file that does not begin as SQLite's do; one that is empty or missing may become one.

    SQLite itself would take a file of a single byte for an empty database.
    """
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            begins = file.read(len(_BEGINNING))
    except OSError:
        return  # opening it tells why
    if begins and begins != _BEGINNING:
        raise StoreCorrupt(
            f"{path} is no store: it does not begin as one; it was left as it is: name another file, or restore a "
            "backup if it was a store"
        )


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _tidy(path: Path) -> None:
    """Let SQLite remove the empty log and its index, which it does where the last connection may write.

    It does so under its own locks, and not while any other process has the file open. A log with results, which a
    killed process has left, stays as it is.
    """
    with suppress(*SQLITE_ERRORS, OSError):
        if path.with_name(path.name + "-shm").exists() and path.stat().st_size and not _has_log(path):
            with closing(sqlite3.connect(_uri(path, "mode=rw"), uri=True, timeout=0.0)) as connection:
                connection.execute("PRAGMA schema_version").fetchone()


def _immutable(path: Path) -> Database:
    try:
        found = _checked(path, "mode=ro&immutable=1", write=False)
    except SQLITE_ERRORS as error:
        raise translated(error, path) from error
    found.live = False
    return found


def open_unchecked(path: Path) -> Database | None:
    """Open a file for reading without checking that it is sound; None where it is empty or cannot be opened."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return None
        return _opened(path, "mode=ro", write=False)
    except (*SQLITE_ERRORS, OSError):
        return None


def _checked(path: Path, options: str, *, write: bool) -> Database:
    database = _opened(path, options, write=write)
    try:
        found = [row[0] for row in database.connection.execute("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            raise StoreCorrupt(
                f"{path} is damaged ({'; '.join(found)}); keep a copy of it, "
                "then restore a backup or start over with --fresh, which moves it aside"
            )
    except BaseException:
        database.connection.close()
        raise
    return database


def _opened(path: Path, options: str, *, write: bool) -> Database:
    connection = sqlite3.connect(_uri(path, options), uri=True, isolation_level=None, timeout=BUSY_MS / 1000)
    try:
        connection.row_factory = sqlite3.Row
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return Database(connection, path, writable=write)


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(os.fspath(path.absolute()))}?{options}"


def folder_for(path: Path) -> list[Path]:
    """Make the folder of a store, and return the folders that were not there, the innermost first.

    Raises `StoreError`.
    """
    new = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unavailable(f"cannot make the folder {path.parent} for the store: {error.strerror}", error) from error
    return new

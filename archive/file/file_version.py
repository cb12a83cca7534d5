"""Schema version of a store's file: recognition, upgrade of an old file, refusal of a newer one."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from archive.file.database import Database, open_unchecked
from archive.file.migrations import STEPS, Step
from evokernel.errors import SchemaTooNew, StoreCorrupt, StoreError

APPLICATION_ID = 0x65766B31  # "evk1" in the header of the file, where `file` and SQLite look for it
VERSION = len(STEPS)
_APPLICATION_AND_VERSION = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_master)"
)


def version_of(database: Database) -> int:
    """Return the schema version of the file, 0 for an empty one.

    Raises `StoreCorrupt` if the file is an SQLite database of something else.
    """
    found = database.row(_APPLICATION_AND_VERSION)  # one query: another process may be making the file
    version, application, tables = (0, 0, 0) if found is None else (int(each) for each in found)
    if application == APPLICATION_ID or (version, application, tables) == (0, 0, 0):
        return version
    raise StoreCorrupt(
        f"{database.path} is a database, but not a store of evokernel; it was left as it is: name another file"
    )


def refuse_newer(database: Database, version: int, known: int = VERSION) -> None:
    """Raise `SchemaTooNew` for a file that a later release has written."""
    if version > known:
        raise SchemaTooNew(
            f"{database.path} has schema {version}, and this evokernel knows up to {known}: "
            "install the release that wrote it, or a later one; the file was left as it is"
        )


def refuse_unusable(path: Path) -> None:
    """Refuse a newer store or a foreign database before it is opened for writing.

    The last process to close a writable file folds the log into it, and these files must not change.

    Raises:
        SchemaTooNew: a later release wrote it.
        StoreCorrupt: it is an SQLite database of something else.
    """
    database = open_unchecked(path)
    if database is None:
        return
    try:
        refuse_newer(database, version_of(database))
    except (SchemaTooNew, StoreCorrupt):
        raise
    except StoreError:
        return  # opening it for writing gives a better error
    finally:
        database.close()


def upgrade(database: Database, steps: Sequence[Step] = STEPS) -> None:
    """Bring a file up to date in one transaction, or leave it as it is.

    Args:
        database: an open file of this or an older schema, or an empty one.
        steps: all migrations in order.

    Raises:
        SchemaTooNew: the file is newer than the steps.
        StoreCorrupt: the file is not a store.
    """
    version = version_of(database)
    refuse_newer(database, version, len(steps))
    if database.writable:
        database.rows("PRAGMA journal_mode = WAL")
    if version == len(steps):
        return
    with database.transaction():
        for step in steps[version_of(database) :]:  # read again: another process may have upgraded the file
            step(database)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {len(steps)}")


def in_memory_copy(database: Database) -> Database:
    """Return a copy of an old file in memory, brought up to date: reading never changes a file."""
    with database.translation():
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.row_factory = sqlite3.Row
        database.connection.backup(connection)
        connection.execute("PRAGMA journal_mode = MEMORY")
    copy = Database(connection, database.path, writable=False, live=False)
    upgrade(copy)
    copy.execute("PRAGMA query_only = ON")
    return copy

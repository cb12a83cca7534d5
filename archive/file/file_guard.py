"""Guard of the files of an open store: it notices a removed file and saves the content elsewhere."""

import os
import sqlite3
import time
from pathlib import Path

from archive.file.database import Database
from evokernel.errors import StoreError

SUFFIXES = ("", "-wal", "-shm")
"""Endings of the files of a store in use, after the name of the store."""


class FileGuard:
    """The files that a store was opened with.

    A process that has a removed or replaced file open goes on writing to it. Such a file has no name, and its content
    is gone when the process ends.
    """

    __slots__ = ("_database", "_lost", "_seen")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = {suffix: _look(self._database.path, suffix) for suffix in SUFFIXES}
        self._lost = ""

    def check(self) -> None:
        """Raise `StoreError` where a file was removed or replaced, after saving the whole store under a dated name."""
        if not self._lost:
            now = {suffix: _look(self._database.path, suffix) for suffix in SUFFIXES}
            missing = [suffix for suffix, seen in self._seen.items() if seen not in (None, now[suffix])]
            self._seen = {**now, **{suffix: seen for suffix, seen in self._seen.items() if seen is not None}}
            self._lost = self._save(missing) if missing else ""
        if self._lost:
            raise StoreError(self._lost)

    def _save(self, missing: list[str]) -> str:
        path = self._database.path
        names = " and ".join(path.name + suffix for suffix in missing)
        happened = f"store {path}: somebody has removed or replaced {names} while this search was writing"
        target = dated(path)
        try:
            copy = sqlite3.connect(target)
            try:
                self._database.connection.backup(copy)
            finally:
                copy.close()
        except sqlite3.Error as error:
            return f"{happened}; what it held could not be saved as {target}: {error}"
        return f"{happened}; all it held is now in {target}: move that to {path} and run the same command to go on"


def _look(path: Path, suffix: str) -> tuple[int, int] | None:
    try:
        found = os.stat(f"{path}{suffix}")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot look at {path}{suffix}: {error.strerror}") from error
    return found.st_dev, found.st_ino


def dated(path: Path) -> Path:
    """Return a name beside a file that carries the time and is free."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (f"{path.stem}.{stamp}{extra}{path.suffix}" for extra in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())

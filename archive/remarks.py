"""Remarks in a store. A remark is not a fact: it has no seq, and a replay never reads it."""

import json
import sqlite3
import time
from collections.abc import Callable, Collection
from typing import Any

from archive.file import checksums
from archive.file.checksums import CHECKED
from archive.file.database import Database
from archive.file.records import read, to_json
from evokernel.records.candidate import clean
from evokernel.records.remarks import Remark, RemarkKind


class Remarks:
    """All remarks of a run.

    Args:
        session: returns the number of the open session, or None.
    """

    def __init__(self, database: Database, session: Callable[[], int | None]) -> None:
        self._database = database
        self._session = session

    @property
    def session(self) -> int | None:
        """The number of the open session, or None."""
        return self._session()

    def add(self, kind: RemarkKind, text: str, *, step: int | None = None, candidate: str = "", **detail: Any) -> int:
        """Store a remark, with further JSON values, in a transaction of its own and return its number."""
        values = {
            "at": time.time(),
            "session": self._session(),
            "kind": kind.value,
            "step": step,
            "candidate": candidate or None,
            "text": clean(text),
            "detail": to_json(detail),
        }
        with self._database.transaction():
            return checksums.add(self._database, "remarks", values)

    def all(self, kinds: Collection[RemarkKind] = tuple(RemarkKind), *, after: int = 0) -> list[Remark]:
        """Return the remarks of these kinds with a number above `after`, in the order of writing."""
        rows = self._database.rows(
            f"SELECT {CHECKED['remarks']} FROM remarks WHERE id > ? AND kind IN ({', '.join('?' * len(kinds))}) "
            "ORDER BY id",
            (after, *(kind.value for kind in kinds)),
        )
        return [read(row, _remark, f"a remark ({row['id']})") for row in rows]


def _remark(row: sqlite3.Row) -> Remark:
    return Remark(
        id=row["id"],
        at=row["at"],
        session=row["session"],
        kind=RemarkKind(row["kind"]),
        text=row["text"],
        step=row["step"],
        candidate=row["candidate"] or "",
        detail=json.loads(row["detail"]),
    )

"""Insights: words of a model that a step left in place of a candidate. Each is a fact with a seq of its own.

An insight from elsewhere is an entry of the inbox; its seq is the one at which it was taken in.
"""

import json
import math
import sqlite3
from typing import Any

from archive.file.database import Database
from archive.file.records import numbers_of, read, real, to_json
from archive.file.texts import put_text, unpack
from evokernel.errors import StoreError
from evokernel.records.candidate import clean
from evokernel.records.llm import Insight, InsightKind

COLUMNS = "i.seq, i.kind, i.title, i.candidate, i.predicted_speedup, i.sources, t.body"
_TABLES = "insights i JOIN texts t ON t.hash = i.text"
HANDED_IN = "insight"
"""The kind of inbox entry that is an insight."""
KNOWN = f"SELECT seq FROM insights UNION ALL SELECT taken_seq FROM inbox WHERE kind = '{HANDED_IN}'"
"""The seqs of all insights; NULL for an inbox entry that waits."""


def refuse_unfounded(database: Database, insight: Insight, *, step: int) -> None:
    """Raise `StoreError` where the candidate of an insight or one of its sources is not in the store."""
    refuse_unknown(database, step, insight.sources)
    if insight.candidate and database.row("SELECT 1 FROM candidates WHERE id = ?", (insight.candidate,)) is None:
        raise StoreError(f"{database.path}: the insight of step {step} is about {insight.candidate}, which is unknown")


def row_of(database: Database, insight: Insight, *, seq: int, step: int, island: str) -> tuple[object, ...]:
    """Store the text of an insight within the open transaction and return the row for it."""
    return (
        seq,
        step,
        clean(island),
        insight.kind.value,
        clean(insight.title),
        put_text(database, clean(insight.text)),
        insight.candidate or None,
        real(insight.predicted_speedup),
        to_json(insight.sources),
    )


def refuse_unknown(database: Database, step: int, seqs: tuple[int, ...]) -> None:
    """Raise `StoreError` if a step names an insight that is not in the store."""
    for seq in seqs:
        if database.row(f"SELECT 1 FROM ({KNOWN}) WHERE seq = ?", (seq,)) is None:
            raise StoreError(f"{database.path}: step {step} names {seq} as an insight, which is not in the store")


def find(database: Database, seq: int) -> Insight | None:
    """Return the insight with a seq, or None; None also for an unreadable one of the inbox."""
    row = database.row(f"SELECT {COLUMNS} FROM {_TABLES} WHERE i.seq = ?", (seq,))
    if row is not None:
        return insight_of(row)
    row = database.row("SELECT payload FROM inbox WHERE taken_seq = ? AND kind = ?", (seq, HANDED_IN))
    return None if row is None else _handed_in(json.loads(row["payload"]))


def _handed_in(payload: Any) -> Insight | None:
    values = payload if isinstance(payload, dict) else {}
    predicted = values.get("predicted_speedup")
    try:
        kind = InsightKind(str(values.get("kind")))
    except ValueError:
        return None
    return Insight(
        kind=kind,
        title=str(values.get("title", "")),
        text=str(values.get("text", "")),
        candidate=str(values.get("candidate", "")),
        predicted_speedup=predicted if isinstance(predicted, int | float) and math.isfinite(predicted) else None,
    )


def between(database: Database, first: int, last: int) -> dict[int, Insight]:
    """Return the insights of a span of seqs, both ends included, by seq."""
    rows = database.rows(f"SELECT {COLUMNS} FROM {_TABLES} WHERE i.seq BETWEEN ? AND ?", (first, last))
    return {row["seq"]: insight_of(row) for row in rows}


def insight_of(row: sqlite3.Row) -> Insight:
    """Return the insight in a row of `COLUMNS`. Raises `StoreCorrupt`."""
    return read(row, _insight, f"an insight (seq {row['seq']})")


def _insight(row: sqlite3.Row) -> Insight:
    return Insight(
        kind=InsightKind(row["kind"]),
        title=row["title"],
        text=unpack(row["body"]),
        candidate=row["candidate"] or "",
        predicted_speedup=row["predicted_speedup"],
        sources=numbers_of(row["sources"]),
    )

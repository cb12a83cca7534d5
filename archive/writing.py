"""What the engine writes: proposals, results, further evaluations, edits. Each function is one transaction."""

import time
from typing import Any

from archive import insights
from archive.database import Database
from archive.journal import EntryKind
from archive.records import (
    INSERT_EVALUATION,
    INSERT_PROPOSAL,
    NoCandidate,
    barren_row,
    evaluation_row,
    proposal_row,
    to_json,
)
from archive.texts import put_text
from evokernel.errors import StoreError
from evokernel.records.candidate import Proposal, clean
from evokernel.records.evaluation import Evaluation
from evokernel.records.llm import Insight


def append(database: Database, kind: EntryKind, *, session: int | None) -> int:
    """Add an entry to the journal within the open transaction and return its seq."""
    values = (kind.value, time.time(), session)
    return database.execute("INSERT INTO journal(kind, at, session) VALUES (?, ?, ?)", values)


def propose(database: Database, proposal: Proposal, *, program_hash: str, skeleton: str, session: int | None) -> None:
    """Store a proposal with its text, its edges and a lease.

    Raises:
        StoreError: the step is taken, or a parent or an insight is not in the store.
    """
    candidate, now = proposal.candidate, time.time()
    with database.transaction():
        text = put_text(database, candidate.source)
        values = (candidate.id, candidate.language, text, program_hash, skeleton, proposal.step, "")
        database.execute("INSERT OR IGNORE INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        try:
            database.execute(INSERT_PROPOSAL, proposal_row(proposal, at=now))
        except StoreError:
            _refuse_taken(database, proposal.step)
            raise
        _edges(database, proposal.step, proposal.parents, proposal.inspirations)
        insights.refuse_unknown(database, proposal.step, proposal.insights)
        database.execute("INSERT INTO leases VALUES (?, ?, ?)", (proposal.step, session, now))


def _refuse_taken(database: Database, step: int) -> None:
    if database.row("SELECT 1 FROM proposals WHERE step = ?", (step,)) is not None:
        raise StoreError(f"{database.path}: step {step} has its proposal already; take `next_step()`")


def _edges(database: Database, step: int, parents: tuple[str, ...], inspirations: tuple[str, ...]) -> None:
    named = [(name, "parent") for name in parents] + [(name, "inspiration") for name in inspirations]
    rows = [(step, ordinal, name, kind) for ordinal, (name, kind) in enumerate(named)]
    try:
        for row in rows:
            database.execute("INSERT INTO parents VALUES (?, ?, ?, ?)", row)
    except StoreError:
        for name, _ in named:
            if database.row("SELECT 1 FROM candidates WHERE id = ?", (name,)) is None:
                message = f"{database.path}: step {step} names {name} as a parent, which is not in the store"
                raise StoreError(message) from None
        raise


def record_barren(database: Database, barren: NoCandidate, *, session: int | None) -> int:
    """Store that a step had nothing to offer and return the seq. Raises `StoreError` for a step that is taken."""
    with database.transaction():
        return _end_without_candidate(database, EntryKind.BARREN, barren, session=session)


def record_insight(database: Database, barren: NoCandidate, insight: Insight, *, session: int | None) -> int:
    """Store that a step ended with an insight and return the seq.

    Raises:
        StoreError: the step is taken, or what the insight is about or was made from is not in the store.
    """
    with database.transaction():
        seq = _end_without_candidate(database, EntryKind.INSIGHT, barren, session=session)
        insights.insert(database, insight, seq=seq, step=barren.step, island=barren.island)
    return seq


def _end_without_candidate(database: Database, kind: EntryKind, barren: NoCandidate, *, session: int | None) -> int:
    _refuse_taken(database, barren.step)
    database.execute(INSERT_PROPOSAL, barren_row(barren, at=time.time()))
    _edges(database, barren.step, barren.parents, barren.inspirations)
    seq = append(database, kind, session=session)
    database.execute("INSERT INTO results VALUES (?, ?, NULL)", (seq, barren.step))
    return seq


def commit(
    database: Database, step: int, evaluation: Evaluation, *, reused_from: int | None, session: int | None
) -> int:
    """Store the result of a step, end its lease and return the seq.

    Raises:
        StoreError: the step is not in flight, the evaluation is of another program, or the one to reuse is missing.
    """
    with database.transaction():
        _check_flight(database, step, evaluation)
        if database.changed("DELETE FROM leases WHERE step = ?", (step,)) == 0:
            raise StoreError(f"{database.path}: step {step} is not in flight: never proposed, or committed before")
        seq = append(database, EntryKind.RESULT, session=session)
        if reused_from is None:
            database.execute(INSERT_EVALUATION, evaluation_row(evaluation, seq=seq))
        elif database.row("SELECT 1 FROM evaluations WHERE seq = ?", (reused_from,)) is None:
            raise StoreError(f"{database.path}: there is no evaluation {reused_from} to use again for step {step}")
        used = seq if reused_from is None else reused_from
        database.execute("INSERT INTO results VALUES (?, ?, ?)", (seq, step, used))
    return seq


def _check_flight(database: Database, step: int, evaluation: Evaluation) -> None:
    row = database.row(
        "SELECT c.id, c.program_hash FROM proposals p JOIN candidates c ON c.id = p.candidate WHERE p.step = ?", (step,)
    )
    if row is not None and row["program_hash"] != evaluation.key.program_hash:
        raise StoreError(
            f"{database.path}: step {step} proposed program {row['program_hash']}, "
            f"not {evaluation.key.program_hash}, which the evaluation is of"
        )


def add_evaluation(database: Database, evaluation: Evaluation, *, session: int | None) -> int:
    """Store one more evaluation of a known candidate and return its seq. Raises `StoreError` for an unknown one."""
    with database.transaction():
        if database.row("SELECT 1 FROM candidates WHERE id = ?", (evaluation.candidate_id,)) is None:
            raise StoreError(f"{database.path}: candidate {evaluation.candidate_id} was never proposed in this store")
        seq = append(database, EntryKind.EVALUATION, session=session)
        database.execute(INSERT_EVALUATION, evaluation_row(evaluation, seq=seq))
    return seq


def edit_row(database: Database, key: str, old: Any, new: Any, *, session: int | None) -> int:
    """Store a changed setting within the open transaction and return the seq."""
    seq = append(database, EntryKind.CONFIG_EDIT, session=session)
    database.execute("INSERT INTO config_edits VALUES (?, ?, ?, ?)", (seq, clean(key), to_json(old), to_json(new)))
    return seq


def stop(database: Database, reason: str, *, session: int | None) -> int:
    """Store the orderly end of a session within the open transaction and return the seq."""
    seq = append(database, EntryKind.STOP, session=session)
    database.execute("INSERT INTO stops VALUES (?, ?)", (seq, clean(reason)))
    return seq

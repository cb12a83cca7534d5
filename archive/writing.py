"""Writes of the engine: proposals, results, further evaluations, edits. Each function is one transaction."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from archive import insights
from archive.file import chain, checksums
from archive.file.checksums import Values, checksum
from archive.file.database import Database
from archive.file.records import INSERT_PROPOSAL, NoCandidate, evaluation_row, no_candidate_row, proposal_row, to_json
from archive.file.texts import put_text
from archive.journal import EntryKind
from evokernel.errors import StoreError
from evokernel.records.candidate import Proposal, clean
from evokernel.records.evaluation import Evaluation
from evokernel.records.llm import Insight


def append(
    database: Database,
    kind: EntryKind,
    facts: Callable[[int], Mapping[str, Values]],
    *,
    session: int | None,
    proposal: bytes = b"",
) -> int:
    """Add an entry with its facts to the journal within the open transaction and return its seq.

    `facts` returns for a seq the row of each fact by table; `proposal` is the digest of the proposal that it ends.
    """
    return chain.append(database, (kind.value, time.time(), session), facts, proposal=proposal)


def propose(database: Database, proposal: Proposal, *, program_hash: str, skeleton: str, session: int | None) -> None:
    """Store a proposal with its text, its edges and a lease.

    Raises `StoreError` if the step is taken, or a parent or an insight is not in the store.
    """
    candidate, now = proposal.candidate, time.time()
    with database.transaction():
        text = put_text(database, candidate.source)
        values = (candidate.id, candidate.language, text, program_hash, skeleton, proposal.step, "")
        new = database.changed("INSERT OR IGNORE INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        row, edges = proposal_row(proposal, at=now), _edges(proposal.parents, proposal.inspirations)
        digest = chain.proposal_digest(row, edges=edges, candidate=values if new else None)
        try:
            database.execute(INSERT_PROPOSAL, (*row, digest))
        except StoreError:
            _refuse_taken(database, proposal.step)
            raise
        _insert_edges(database, proposal.step, edges)
        insights.refuse_unknown(database, proposal.step, proposal.insights)
        lease = (proposal.step, session, now)
        database.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", (*lease, checksum("leases", lease)))


def _refuse_taken(database: Database, step: int) -> None:
    if database.row("SELECT 1 FROM proposals WHERE step = ?", (step,)) is not None:
        raise StoreError(f"{database.path}: step {step} has its proposal already; take `next_step()`")


def _edges(parents: tuple[str, ...], inspirations: tuple[str, ...]) -> list[tuple[int, str, str]]:
    named = [(name, "parent") for name in parents] + [(name, "inspiration") for name in inspirations]
    return [(ordinal, name, kind) for ordinal, (name, kind) in enumerate(named)]


def _insert_edges(database: Database, step: int, edges: list[tuple[int, str, str]]) -> None:
    try:
        for edge in edges:
            database.execute("INSERT INTO parents VALUES (?, ?, ?, ?)", (step, *edge))
    except StoreError:
        for _, name, _ in edges:
            if database.row("SELECT 1 FROM candidates WHERE id = ?", (name,)) is None:
                message = f"{database.path}: step {step} names {name} as a parent, which is not in the store"
                raise StoreError(message) from None
        raise


def record_no_candidate(database: Database, nothing: NoCandidate, *, session: int | None) -> int:
    """Store that a step had nothing to offer and return the seq. Raises `StoreError` for a step that is taken."""
    with database.transaction():
        return _end_without_candidate(database, EntryKind.BARREN, nothing, session=session)


def record_insight(
    database: Database, nothing: NoCandidate, insight: Insight, others: Sequence[Insight] = (), *, session: int | None
) -> int:
    """Store that a step ended with an insight and return the seq.

    The `others` of the same reply wait in the inbox, from which each becomes a fact of its own. Raises `StoreError` if
    the step is taken, or what the insight is about or was made from is not in the store.
    """
    with database.transaction():
        for each in (insight, *others):
            insights.refuse_unfounded(database, each, step=nothing.step)
        for each in others:
            payload = json.dumps({**asdict(each), "island": nothing.island})
            values = {"kind": insights.HANDED_IN, "payload": payload, "author": clean(nothing.operator)}
            checksums.add(database, "inbox", {**values, "created": time.time()})
        return _end_without_candidate(database, EntryKind.INSIGHT, nothing, session=session, insight=insight)


def _end_without_candidate(
    database: Database, kind: EntryKind, nothing: NoCandidate, *, session: int | None, insight: Insight | None = None
) -> int:
    _refuse_taken(database, nothing.step)
    row, edges = no_candidate_row(nothing, at=time.time()), _edges(nothing.parents, nothing.inspirations)
    digest = chain.proposal_digest(row, edges=edges, candidate=None)
    database.execute(INSERT_PROPOSAL, (*row, digest))
    _insert_edges(database, nothing.step, edges)

    def facts(seq: int) -> dict[str, Values]:
        found: dict[str, Values] = {"results": (seq, nothing.step, None)}
        if insight is not None:
            found["insights"] = insights.row_of(database, insight, seq=seq, step=nothing.step, island=nothing.island)
        return found

    return append(database, kind, facts, session=session, proposal=digest)


def commit(
    database: Database, step: int, evaluation: Evaluation, *, reused_from: int | None, session: int | None
) -> int:
    """Store the result of a step, end its lease and return the seq.

    Raises:
        StoreError: the step is not in flight, the evaluation is of another program, or the one to reuse is missing.
    """
    with database.transaction():
        digest = _check_flight(database, step, evaluation)
        if database.changed("DELETE FROM leases WHERE step = ?", (step,)) == 0:
            raise StoreError(f"{database.path}: step {step} is not in flight: never proposed, or committed before")
        if reused_from is None:
            return append(
                database,
                EntryKind.RESULT,
                lambda seq: {"evaluations": evaluation_row(evaluation, seq=seq), "results": (seq, step, seq)},
                session=session,
                proposal=digest,
            )
        if database.row("SELECT 1 FROM evaluations WHERE seq = ?", (reused_from,)) is None:
            raise StoreError(f"{database.path}: there is no evaluation {reused_from} to use again for step {step}")
        return append(
            database,
            EntryKind.RESULT,
            lambda seq: {"results": (seq, step, reused_from)},
            session=session,
            proposal=digest,
        )


def _check_flight(database: Database, step: int, evaluation: Evaluation) -> bytes:
    """Return the digest of a step's proposal, which the evaluation must be of; nothing for no proposal."""
    row = database.row(
        "SELECT c.id, c.program_hash, p.digest FROM proposals p JOIN candidates c ON c.id = p.candidate "
        "WHERE p.step = ?",
        (step,),
    )
    if row is None:
        return b""
    if row["program_hash"] != evaluation.key.program_hash:
        raise StoreError(
            f"{database.path}: step {step} proposed program {row['program_hash']}, "
            f"not {evaluation.key.program_hash}, which the evaluation is of"
        )
    return bytes(row["digest"])


def add_evaluation(database: Database, evaluation: Evaluation, *, session: int | None) -> int:
    """Store one more evaluation of a known candidate and return its seq. Raises `StoreError` for an unknown one."""
    with database.transaction():
        if database.row("SELECT 1 FROM candidates WHERE id = ?", (evaluation.candidate_id,)) is None:
            raise StoreError(f"{database.path}: candidate {evaluation.candidate_id} was never proposed in this store")
        return append_evaluation(database, evaluation, session=session)


def append_evaluation(database: Database, evaluation: Evaluation, *, session: int | None) -> int:
    """Store one more evaluation of a known candidate within the open transaction and return its seq."""
    return append(
        database,
        EntryKind.EVALUATION,
        lambda seq: {"evaluations": evaluation_row(evaluation, seq=seq)},
        session=session,
    )


def edit_row(database: Database, key: str, old: Any, new: Any, *, session: int | None) -> int:
    """Store a changed setting within the open transaction and return the seq."""
    values = (clean(key), to_json(old), to_json(new))
    return append(database, EntryKind.CONFIG_EDIT, lambda seq: {"config_edits": (seq, *values)}, session=session)


def stop(database: Database, reason: str, *, session: int | None) -> int:
    """Store the orderly end of a session within the open transaction and return the seq."""
    return append(database, EntryKind.STOP, lambda seq: {"stops": (seq, clean(reason))}, session=session)

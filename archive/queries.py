"""Queries for single things: candidates, proposals, evaluations, work in flight."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from archive.file.database import Database
from archive.file.records import (
    CANDIDATE_COLUMNS,
    EVALUATION_COLUMNS,
    PROPOSAL_COLUMNS,
    StoredCandidate,
    StoredEvaluation,
    candidate_of,
    proposal_of,
    stored_candidate,
    stored_evaluation,
)
from archive.journal import EntryKind, lineages
from evokernel.errors import StoreError
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Status

FIRST_STEP = 1
_PROGRAMS = 5000
_SHOWN = 4
"""Ids that a message has at most."""


def _columns(names: str, table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in names.split(", "))


_CANDIDATES = f"SELECT {_columns(CANDIDATE_COLUMNS, 'c')}, t.body FROM candidates c JOIN texts t ON t.hash = c.text"
_EVALUATIONS = f"SELECT {_columns(EVALUATION_COLUMNS, 'e')}, j.at FROM evaluations e JOIN journal j ON j.seq = e.seq"
_PROPOSALS = (
    f"SELECT {_columns(PROPOSAL_COLUMNS, 'p')}, c.language, t.body FROM proposals p "
    "JOIN candidates c ON c.id = p.candidate JOIN texts t ON t.hash = c.text"
)
_LEASED = "step IN (SELECT step FROM leases)"


def candidate(database: Database, name: str) -> StoredCandidate:
    """Return the candidate with an id or the beginning of one. Raises `StoreError` if none or several begin with it."""
    wanted = name.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{1,16}", wanted):
        near = get_close_matches(wanted, ("best", "seed"), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else f", or best, or seed{_some_ids(database)}"
        raise StoreError(f"{name!r} is no candidate id; ids are up to 16 hexadecimal digits{meant}")
    which = "WHERE c.id >= ? AND c.id < ? ORDER BY c.id LIMIT ?"
    rows = database.rows(f"{_CANDIDATES} {which}", (wanted, wanted + "g", _SHOWN + 1))
    if not rows:
        made = candidate_of_step(database, int(wanted)) if wanted.isdecimal() else None
        step = f"; step {wanted} made {made}" if made else ""
        raise StoreError(f"{database.path} has no candidate whose id begins with {wanted}{step}{_some_ids(database)}")
    if len(rows) > 1:
        found = ", ".join([*(row["id"] for row in rows[:_SHOWN]), *(["..."] if len(rows) > _SHOWN else [])])
        raise StoreError(f"several candidates begin with {wanted} ({found}); give more digits")
    return stored_candidate(rows[0])


def candidate_of_step(database: Database, step: int) -> str | None:
    """Return the id of the candidate that a step brought in; None where it brought none."""
    row = database.row("SELECT id FROM candidates WHERE born = ?", (step,)) if 0 <= step < 2**63 else None
    return None if row is None else str(row["id"])


def _some_ids(database: Database) -> str:
    newest = [str(row[0]) for row in database.rows("SELECT id FROM candidates ORDER BY born DESC LIMIT ?", (_SHOWN,))]
    if not newest:
        return "; it has no candidate yet"
    return f"; the newest are {', '.join(newest)}, and `evokernel show {database.path} --top 20` lists the best"


def candidate_ids(database: Database) -> list[str]:
    """Return the ids of all candidates, the newest first."""
    return [str(row[0]) for row in database.rows("SELECT id FROM candidates ORDER BY born DESC")]


def unchanged_since(database: Database, seq: int) -> bool:
    """Say whether no fact after a seq changes the state: ends of sessions and edits do not."""
    sql = f"SELECT count(*) FROM journal WHERE seq > ? AND kind NOT IN ('{EntryKind.STOP}', '{EntryKind.CONFIG_EDIT}')"
    return not database.number(sql, (seq,))


def result_of(database: Database, candidate_id: str) -> int | None:
    """Return the seq of the latest result of a candidate, or None where it has none."""
    sql = "SELECT max(r.seq) FROM results r JOIN proposals p ON p.step = r.step WHERE p.candidate = ?"
    return int(database.number(sql, (candidate_id,))) or None


def siblings(database: Database, skeleton: str) -> list[StoredCandidate]:
    """Return all candidates of one skeleton, oldest first."""
    rows = database.rows(f"{_CANDIDATES} WHERE c.skeleton = ? ORDER BY c.rowid", (skeleton,))
    return [stored_candidate(row) for row in rows]


def find_evaluation(database: Database, key: EvaluationKey) -> StoredEvaluation | None:
    """Return the newest evaluation with an equal key, or None; our own faults are never used again."""
    sql = "SELECT max(seq) FROM evaluations WHERE program_hash = ? AND key_digest = ? AND status <> ?"
    seq = database.number(sql, (key.program_hash, key.digest, Status.HARNESS_ERROR.value))
    if not seq:  # true of every new program, and selecting all columns takes twice as long
        return None
    row = database.row(f"{_EVALUATIONS} WHERE e.seq = ?", (seq,))
    found = None if row is None else stored_evaluation(row)
    return found if found is not None and found.evaluation.key == key else None


def evaluation_at(database: Database, seq: int) -> Evaluation | None:
    """Return the evaluation that a fact has brought in, or None."""
    row = database.row(f"{_EVALUATIONS} WHERE e.seq = ?", (seq,))
    return None if row is None else stored_evaluation(row).evaluation


def last_failure(database: Database) -> Evaluation | None:
    """Return the evaluation of the newest result that is not right, or None."""
    row = database.row(
        f"{_EVALUATIONS} JOIN results r ON r.evaluation = e.seq WHERE e.status <> ? ORDER BY r.seq DESC LIMIT 1",
        (Status.OK.value,),
    )
    return None if row is None else stored_evaluation(row).evaluation


def time_of(database: Database, seq: int) -> float:
    """Return when a fact was committed, in s since 1970."""
    return float(database.number("SELECT at FROM journal WHERE seq = ?", (seq,)))


def evaluated_programs(database: Database) -> Iterator[str]:
    """Yield the hash of every program that has an evaluation, a page at a time: there may be very many."""
    select = "SELECT DISTINCT program_hash FROM evaluations"
    for page in database.pages(select, "program_hash", page_rows=_PROGRAMS):
        yield from (row["program_hash"] for row in page)


def evaluations_of(database: Database, program_hash: str) -> list[StoredEvaluation]:
    """Return all evaluations of a program, oldest first."""
    rows = database.rows(f"{_EVALUATIONS} WHERE e.program_hash = ? ORDER BY e.seq", (program_hash,))
    return [stored_evaluation(row) for row in rows]


def judged_by_another(database: Database, *, task_hash: str, device: str, version: str) -> bool:
    """Say whether a right result on a device comes from another evaluator version or another text of the task."""
    sql = (
        "SELECT 1 FROM results r JOIN evaluations e ON e.seq = r.evaluation WHERE e.device = ? AND e.status = ? "
        "AND (e.evaluator_version <> ? OR (e.task_hash <> ? AND e.origin = '')) LIMIT 1"
    )
    return database.row(sql, (device, Status.OK.value, version, task_hash)) is not None


def judged_again(database: Database, *, task_hash: str, device: str, version: str) -> dict[str, Evaluation]:
    """Return, by program, the verdicts of an evaluator on kernels that an earlier one had judged."""
    rows = database.rows(
        f"{_EVALUATIONS} WHERE j.kind = ? AND e.budget = ? AND e.task_hash = ? AND e.device = ? "
        "AND e.evaluator_version = ? AND e.status <> ? ORDER BY e.seq",
        (EntryKind.EVALUATION, Fidelity.PRECISE.value, task_hash, device, version, Status.HARNESS_ERROR.value),
    )
    return {row["program_hash"]: stored_evaluation(row).evaluation for row in rows}


def proposals_of(database: Database, candidate_id: str) -> list[Proposal]:
    """Return the proposals of a candidate; the first is the one that brought it into the store."""
    return _proposals(
        database, "p.candidate = ?", (candidate_id,), order="p.step <> c.born, p.step", steps="candidate = ?"
    )


def in_flight(database: Database) -> int:
    """Return how many proposals wait for their evaluation."""
    return int(database.number("SELECT count(*) FROM leases"))


def open_leases(database: Database) -> list[Proposal]:
    """Return the proposals in flight, by step; a resumed run evaluates them again."""
    return _proposals(database, f"p.{_LEASED}", (), order="p.step", steps=_LEASED)


def _proposals(database: Database, where: str, values: tuple[object, ...], *, order: str, steps: str) -> list[Proposal]:
    edges = lineages(database, f"step IN (SELECT step FROM proposals WHERE {steps})", values)
    rows = database.rows(f"{_PROPOSALS} WHERE {where} ORDER BY {order}", values)
    return [proposal_of(row, candidate=candidate_of(row), lineage=edges.get(row["step"], ((), ()))) for row in rows]


def next_step(database: Database) -> int:
    """Return the step after the highest that has a proposal, ended without one, or called a model."""
    called = int(database.number("SELECT max(step) + 1 FROM calls"))
    return max(FIRST_STEP, called, _after_proposals(database))


def _after_proposals(database: Database) -> int:
    return max(FIRST_STEP, int(database.number("SELECT max(step) + 1 FROM proposals")))


def missing_steps(database: Database) -> list[int]:
    """Return the steps below `next_step` that were asked for and have neither a proposal nor an end."""
    gaps = database.rows(
        "SELECT before + 1 AS first, step AS beyond FROM (SELECT step, lag(step, 1, ?) OVER (ORDER BY step) AS before "
        "FROM proposals WHERE step >= ?) WHERE step > before + 1",
        (FIRST_STEP - 1, FIRST_STEP),
    )
    within = [step for gap in gaps for step in range(gap["first"], gap["beyond"])]
    return [*within, *range(_after_proposals(database), next_step(database))]

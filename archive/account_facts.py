"""Facts that an account takes in, each by a few columns of its rows."""

import heapq
import json
import math
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from archive.account import AccountFact, BannedProgram, EndedStep, JudgedResult, MeasuredProgram
from archive.file.database import Database
from archive.identity import read_identity
from archive.inbox import banned_programs
from archive.journal import EntryKind
from archive.verdict_filter import VerdictFilter
from evokernel.records.evaluation import Fidelity, Mode, Status
from evokernel.records.fitness import Fitness

_EVALUATED = "e.seq AS measured, e.program_hash, e.status, e.mode, e.budget, e.speedup, e.speedup_low"
_RESULTS = (
    f"SELECT r.seq, j.at, p.candidate, p.operator, p.island, p.rationale, p.origin, e.descriptor, {_EVALUATED}, "
    "e.task_hash, e.device, e.evaluator_version FROM results r JOIN journal j ON j.seq = r.seq "
    "JOIN proposals p ON p.step = r.step JOIN evaluations e ON e.seq = r.evaluation "
    "WHERE r.seq BETWEEN ? AND ? ORDER BY r.seq"
)
_REMEASURED = (
    f"SELECT e.seq, {_EVALUATED}, e.origin, e.task_hash, e.device, "
    "e.evaluator_version FROM evaluations e JOIN journal j ON j.seq = e.seq "
    f"WHERE j.kind = '{EntryKind.EVALUATION}' AND e.seq BETWEEN ? AND ? ORDER BY e.seq"
)
_EACH = (  # every evaluation as if it were a result of its candidate
    f"SELECT e.seq, j.at, e.candidate, p.operator, p.island, p.rationale, e.origin, e.descriptor, {_EVALUATED}, "
    "e.task_hash, e.device, e.evaluator_version FROM evaluations e JOIN journal j ON j.seq = e.seq "
    "JOIN candidates c ON c.id = e.candidate JOIN proposals p ON p.step = c.born ORDER BY e.seq"
)
_WITHOUT_CANDIDATE = (
    "SELECT r.seq, p.island FROM results r JOIN proposals p ON p.step = r.step "
    "WHERE r.evaluation IS NULL AND r.seq BETWEEN ? AND ? ORDER BY r.seq"
)


def evaluated_candidates(database: Database) -> Iterator[JudgedResult]:
    """Yield every evaluation that counts, in the order of seq, as if a step had ended with it."""
    verdicts = verdicts_of(database)
    rows = (row for row in database.rows(_EACH) if _is_own(row, verdicts))
    return (_judged(row, verdicts) for row in rows if not _outdated(row, verdicts))


def account_facts(database: Database, span: tuple[int, int], verdicts: VerdictFilter) -> Iterator[AccountFact]:
    """Yield the facts that an account takes in, in the order of seq."""
    results = ((row["seq"], _judged(row, verdicts)) for row in database.rows(_RESULTS, span) if _is_own(row, verdicts))
    measured = (
        (row["seq"], _measured(row))
        for row in database.rows(_REMEASURED, span)
        if _is_own(row, verdicts) and not _outdated(row, verdicts)
    )
    empty = ((row["seq"], EndedStep(row["island"])) for row in database.rows(_WITHOUT_CANDIDATE, span))
    bans = ((seq, BannedProgram(program)) for seq, program in banned_programs(database, *span))
    merged: Iterator[tuple[int, AccountFact]] = heapq.merge(results, measured, empty, bans, key=itemgetter(0))
    return (fact for _, fact in merged)


def verdicts_of(database: Database) -> VerdictFilter:
    """Return the filter that a reader has: by what the store says of its run."""
    identity = read_identity(database)
    if identity is None:
        return VerdictFilter()
    return VerdictFilter(identity.task_hash, identity.device, identity.evaluator_version)


def _is_own(row: Any, verdicts: VerdictFilter) -> bool:
    """Say whether an evaluation is of this run's task and device.

    Where the store names the evaluator whose verdicts count, a verdict on another text of the task is outdated, not
    foreign.
    """
    origin = bool(row["origin"]) or not verdicts.version
    return not verdicts.is_foreign(origin=origin, task_hash=row["task_hash"], device=row["device"])


def _outdated(row: Any, verdicts: VerdictFilter) -> bool:
    return verdicts.is_outdated(Status(row["status"]), version=row["evaluator_version"], task_hash=row["task_hash"])


def _judged(row: Any, verdicts: VerdictFilter) -> JudgedResult:
    measured = _measured(row)
    return JudgedResult(
        seq=row["seq"],
        at=row["at"],
        candidate=row["candidate"],
        operator=row["operator"],
        island=row["island"],
        rationale=row["rationale"],
        copied=bool(row["origin"]),
        measured=measured,
        descriptor=json.loads(row["descriptor"]) if measured.fitness is not None else {},
        outdated=_outdated(row, verdicts),
    )


def _measured(row: Any) -> MeasuredProgram:
    status, fidelity, low = Status(row["status"]), Fidelity(row["budget"]), row["speedup_low"]
    counts = status is Status.OK and fidelity is not Fidelity.FINAL and low
    fitness = Fitness(math.log(low), math.log(row["speedup"])) if counts else None
    return MeasuredProgram(row["measured"], row["program_hash"], status, Mode(row["mode"]), fidelity, fitness)

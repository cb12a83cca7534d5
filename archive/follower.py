"""Incremental reading of a run: facts by a few columns of each, cheap enough to repeat during the run."""

import heapq
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import yaml

from archive.account import (
    AccountFact,
    Axes,
    BannedProgram,
    EndedStep,
    JudgedResult,
    MeasuredProgram,
    RunAccount,
    populations_of,
)
from archive.file.database import Database
from archive.identity import read_identity
from archive.inbox import banned_programs
from archive.journal import EntryKind
from archive.queries import evaluation_at
from archive.verdict_filter import VerdictFilter
from evokernel.records.evaluation import Evaluation, Fidelity, Mode, Status
from evokernel.records.fitness import Fitness
from evokernel.records.leader import LeaderChange
from evokernel.records.timing import floor_share

if TYPE_CHECKING:
    from archive.store import Store


@dataclass(frozen=True, slots=True)
class FollowedResult:
    """A judged result that a follower has read."""

    result: JudgedResult
    """The result."""
    change: LeaderChange | None
    """The change of the leader by that result; None where it did not take the lead."""


class RunFollower:
    """The account of a run; `advance` brings it up to date and reads only new facts."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self.seq = 0
        self.account = RunAccount()

    def advance(self, *, most: int | None = None) -> list[FollowedResult]:
        """Take in the facts that are new, `most` at the most, and return the results among them, oldest first.

        May raise `StoreError`.
        """
        if self._store.unchanged_since(self.seq):
            return []
        if not self.account.populations:
            self.account.populations = populations_of(_axes_of(self._store.meta("config") or ""))
        verdicts = _verdicts_of(self._store.database)
        found: list[FollowedResult] = []
        until = self._store.last_seq()
        until = until if most is None else min(until, self.seq + most)
        for fact in _facts(self._store.database, (self.seq + 1, until), verdicts):
            change = self.account.apply(fact)
            if isinstance(fact, JudgedResult):
                found.append(FollowedResult(fact, change))
        self.seq = until
        return found


class LeadingEvaluation:
    """The evaluation of the leading kernel, read again when the leader changes."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._known: Evaluation | None = None
        self._seq = 0

    def of(self, lead: LeaderChange | None) -> Evaluation | None:
        """Return the evaluation of a leader; None without one. May raise `StoreError`."""
        if lead is None:
            return None
        if lead.evaluation_seq != self._seq:
            self._known, self._seq = evaluation_at(self._store.database, lead.evaluation_seq), lead.evaluation_seq
        return self._known

    def floor_share(self, lead: LeaderChange | None) -> float | None:
        """Return the share of the device's physical limit that a leader reaches; None where it is not known."""
        leading = self.of(lead)
        return floor_share(leading.timings) if leading else None


def read_account(store: "Store") -> RunAccount:
    """Return the account of a run as its store has it now."""
    follower = RunFollower(store)
    follower.advance()
    return follower.account


def unfinished_lead(store: "Store", account: RunAccount) -> LeaderChange | None:
    """Return the lead of a kernel that was measured, but not yet to the end of its step; None without one.

    A session that is ended leaves such steps to the next one; the account has their results from then on.
    """
    last = store.curve()[-1:] if store.open_leases() else []
    led = account.lead.fitness.value if account.lead else float("-inf")
    return next((each for each in last if each.fitness.value > led and each.program_hash not in account.barred), None)


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
    verdicts = _verdicts_of(database)
    rows = (row for row in database.rows(_EACH) if _is_own(row, verdicts))
    return (_judged(row, verdicts) for row in rows if not _outdated(row, verdicts))


def _facts(database: Database, span: tuple[int, int], verdicts: VerdictFilter) -> Iterator[AccountFact]:
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


def _verdicts_of(database: Database) -> VerdictFilter:
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


def _axes_of(config: str) -> dict[str, Axes]:
    """Return the edges of the niches, by island and descriptor; nothing for a config of another release."""
    try:
        islands = (yaml.safe_load(config) or {}).get("islands", ())
        axes = {str(each["name"]): each.get("niches", {}).get("axes", {}) for each in islands}
        return {name: {axis: tuple(map(float, edges)) for axis, edges in given.items()} for name, given in axes.items()}
    except (yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError):
        return {}

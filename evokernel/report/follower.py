"""A run followed fact by fact, by a few columns of each: cheap enough to be asked again and again while it goes on."""

import heapq
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import yaml

from archive.grid import niche_of
from archive.identity import RunIdentity
from archive.journal import EntryKind
from archive.store import Store
from evokernel.records.evaluation import Fidelity, Status

EVERYWHERE = "*"
SEED = "seed"
RECENT = 8


@dataclass(frozen=True, slots=True)
class FollowedCandidate:
    """One judged result. `speedup` and its low end are None for one that is not right; `improved`: it took the lead.

    `at` is the time of its commit, in s since the epoch by the clock of the machine that searched.
    """

    seq: int
    at: float
    candidate: str
    operator: str
    island: str
    rationale: str
    mode: str
    status: str
    speedup: float | None
    low: float | None
    improved: bool


@dataclass(frozen=True, slots=True)
class FollowedLeader:
    """The best kernel by what the search has measured of it; `fitness`, the logarithm of `low`, decides."""

    candidate: str
    program_hash: str
    speedup: float
    low: float
    fitness: float


@dataclass(slots=True)
class Population:
    """What an island's own results have filled: niches, the speed-up of its best, results since that improved."""

    axes: Mapping[str, Sequence[float]]
    niches: set[tuple[int, ...]] = field(default_factory=set)
    best: float | None = None
    fitness: float = -math.inf
    stale: int = 0


@dataclass(frozen=True, slots=True)
class _Timed:
    precise: bool
    speedup: float
    low: float
    fitness: float


class RunFollower:
    """Where a run stands, brought up to date by `advance`; reads only what is new since the last time.

    `copied` counts those of `results` that a fork brought along. What elites did when they settled on other islands,
    and what a restart made an island forget, is not followed: a population is what its own results have filled.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seq = 0
        self.results = 0
        self.copied = 0
        self.correct = 0
        self.since_improvement = 0
        self.seed: float | None = None
        self.lead: FollowedLeader | None = None
        self.populations: dict[str, Population] = {}
        self.curve: list[tuple[int, float]] = []
        """Results there were, and the speed-up of the best kernel from then on."""
        self.improvements: deque[FollowedCandidate] = deque(maxlen=RECENT)
        """The latest results that took the lead, oldest first."""
        self._timed: dict[str, _Timed] = {}
        self._refuted: set[str] = set()
        self._judged: dict[str, str] = {}
        self._old_seed = ""

    def advance(self, *, most: int | None = None) -> list[FollowedCandidate]:
        """Take in the facts that are new, `most` at the most, and return the results among them, oldest first.

        May raise `StoreError`.
        """
        if self._store.unchanged_since(self.seq):
            return []
        if not self.populations:
            self.populations = _populations(self._store.meta("config") or "")
        identity = self._store.identity()
        found: list[FollowedCandidate] = []
        until = self._store.last_seq()
        until = until if most is None else min(until, self.seq + most)
        for row in self._rows(until):
            if row["status"] is None:
                for population in self._populations_of(row["island"]):
                    population.stale += 1
            elif identity is None or _counts(row, identity):
                found += self._take(row)
            elif row["device"] == identity.device and row["operator"] is not None and not row["origin"]:
                self._outdated(row)
        self.seq = until
        return found

    def _rows(self, until: int) -> Iterator[Any]:
        database, span = self._store.database, (self.seq + 1, until)
        results = database.rows(f"{_RESULTS} WHERE r.seq BETWEEN ? AND ? ORDER BY r.seq", span)
        others = database.rows(f"{_OTHERS} AND e.seq BETWEEN ? AND ? ORDER BY e.seq", span)
        without = database.rows(f"{_WITHOUT} AND r.seq BETWEEN ? AND ? ORDER BY r.seq", span)
        return heapq.merge(results, others, without, key=itemgetter("seq"))

    def _outdated(self, row: Any) -> None:
        """Count a result of an earlier evaluator: what it is worth is said where it was judged again."""
        self._judged.setdefault(row["program_hash"], row["candidate"])
        self.results += 1
        self.correct += row["status"] == Status.OK
        if row["operator"] == SEED:
            self._old_seed = self._old_seed or row["program_hash"]

    def _again(self, program: str) -> None:
        """Let a measurement of a program that had been judged before speak."""
        known = self._known(program) if program in self._judged else None
        if self.seed is None and known is not None and program == self._old_seed:
            self.seed = known.speedup
        if self.lead is None or self.lead.program_hash == program or (known and known.fitness > self.lead.fitness):
            self._find_lead()

    def _take(self, row: Any) -> Iterator[FollowedCandidate]:
        program, led = row["program_hash"], self.lead
        if row["status"] != Status.HARNESS_ERROR:
            self._measured(row)
        if row["operator"] is None:
            self._again(program)
            return
        self._judged.setdefault(program, row["candidate"])
        known = self._known(program)
        improved = known is not None and (led is None or known.fitness > led.fitness)
        self._count(row, known, improved=improved)
        seen = FollowedCandidate(
            seq=row["seq"],
            at=row["at"],
            candidate=row["candidate"],
            operator=row["operator"],
            island=row["island"],
            rationale=row["rationale"],
            mode=row["mode"],
            status=row["status"],
            speedup=known.speedup if known else None,
            low=known.low if known else None,
            improved=improved,
        )
        if improved:
            self.improvements.append(seen)
        yield seen

    def _measured(self, row: Any) -> None:
        program = row["program_hash"]
        if row["status"] != Status.OK:
            self._refuted.add(program)
        elif row["budget"] != Fidelity.FINAL:  # the longer measurement speaks, then the newer one
            old, precise = self._timed.get(program), row["budget"] == Fidelity.PRECISE
            if old is None or precise >= old.precise:
                self._timed[program] = _Timed(precise, row["speedup"], row["speedup_low"], math.log(row["speedup_low"]))

    def _known(self, program: str) -> _Timed | None:
        return None if program in self._refuted else self._timed.get(program)

    def _count(self, row: Any, known: _Timed | None, *, improved: bool) -> None:
        copied = bool(row["origin"])
        self.results += 1
        self.copied += copied
        self.correct += row["status"] == Status.OK
        if row["status"] == Status.HARNESS_ERROR:
            return
        self.since_improvement = 0 if improved or copied else self.since_improvement + 1
        if known is not None and row["operator"] == SEED and self.seed is None:
            self.seed = known.speedup
        if known is not None and improved:
            self._set_lead(_lead_of(row["candidate"], row["program_hash"], known))
        for population in self._populations_of(row["island"]):
            _settle(population, row, known)

    def _populations_of(self, island: str) -> list[Population]:
        """Return the populations that a result goes to: that of its island, or all."""
        if island == EVERYWHERE:
            return list(self.populations.values())
        return [self.populations.setdefault(island, Population({}))]

    def _find_lead(self) -> None:
        known = ((each, program) for program in self._judged if (each := self._known(program)) is not None)
        best = max(known, key=lambda item: item[0].fitness, default=None)
        self._set_lead(None if best is None else _lead_of(self._judged[best[1]], best[1], best[0]))

    def _set_lead(self, lead: FollowedLeader | None) -> None:
        known, self.lead = self.lead, lead
        if lead is not None and lead != known:
            self.curve.append((self.results, lead.speedup))


_COLUMNS = (
    "e.program_hash, e.status, e.mode, e.budget, e.speedup, e.speedup_low, e.descriptor, e.task_hash, e.device, "
    "e.evaluator_version, j.at"
)
_RESULTS = (
    f"SELECT r.seq, p.candidate, p.operator, p.island, p.rationale, p.origin, {_COLUMNS} FROM results r "
    "JOIN journal j ON j.seq = r.seq JOIN proposals p ON p.step = r.step JOIN evaluations e ON e.seq = r.evaluation"
)
_OTHERS = (
    f"SELECT e.seq, NULL AS operator, {_COLUMNS} FROM evaluations e JOIN journal j ON j.seq = e.seq "
    f"WHERE j.kind = '{EntryKind.EVALUATION}'"
)
_WITHOUT = (  # steps that ended without a candidate
    "SELECT r.seq, NULL AS status, p.island FROM results r JOIN proposals p ON p.step = r.step "
    "WHERE r.evaluation IS NULL"
)


def _counts(row: Any, identity: RunIdentity) -> bool:
    here = (row["task_hash"], row["device"]) == (identity.task_hash, identity.device)
    return here and identity.evaluator_version in ("", row["evaluator_version"])


def _lead_of(candidate: str, program: str, known: _Timed) -> FollowedLeader:
    return FollowedLeader(candidate, program, known.speedup, known.low, known.fitness)


def _settle(population: Population, row: Any, known: _Timed | None) -> None:
    population.stale += 1
    if known is None:
        return
    population.niches.add(niche_of(json.loads(row["descriptor"]), population.axes))
    if known.fitness > population.fitness:
        population.fitness, population.best, population.stale = known.fitness, known.speedup, 0


def _populations(config: str) -> dict[str, Population]:
    islands = (yaml.safe_load(config) or {}).get("islands", ())
    return {each["name"]: Population(each.get("niches", {}).get("axes", {})) for each in islands}

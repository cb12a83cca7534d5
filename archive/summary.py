"""How a run stands: counts, the best programs, the curve of the best so far. Reads facts only, changes nothing."""

import heapq
import math
from dataclasses import dataclass

from archive import queries
from archive.database import Database
from archive.identity import read_identity
from archive.records import StoredCandidate, StoredEvaluation
from evokernel.records.evaluation import Fidelity, Status
from evokernel.records.fitness import Fitness, fitness_of


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its fitness and all evaluations of its program."""

    candidate: StoredCandidate
    fitness: Fitness
    evaluations: tuple[StoredEvaluation, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """From this fact on, this candidate led the run with this fitness."""

    seq: int
    at: float
    candidate: str
    fitness: Fitness


@dataclass(frozen=True, slots=True)
class Counts:
    """How many results there are: by status of the evaluation, by operator, by island.

    `insights` and `barren` count, by operator, the steps that left words in place of a candidate, and nothing at all.
    """

    by_status: dict[str, int]
    by_operator: dict[str, int]
    by_island: dict[str, int]
    barren: dict[str, int]
    insights: dict[str, int]
    reused: int
    in_flight: int


def program_fitness(database: Database, program_hash: str, *, until: int | None = None) -> Fitness | None:
    """Return the fitness of a program from this run's evaluations up to a seq; faults of our own do not count."""
    identity = read_identity(database)
    counted = [
        stored.evaluation
        for stored in queries.evaluations_of(database, program_hash)
        if stored.evaluation.status is not Status.HARNESS_ERROR
        and (until is None or stored.seq <= until)
        and (identity is None or identity.counts(stored.evaluation.key))
    ]
    return fitness_of(counted)


def best(database: Database, count: int = 1) -> list[Ranked]:
    """Return the programs of highest fitness, best first.

    A program's fitness cannot exceed the highest low end among its timings, so programs are visited in the order of
    that bound, and the visit ends as soon as no other can enter.
    """
    bounds = database.rows(
        "SELECT program_hash, max(speedup_low) AS bound, candidate FROM evaluations "
        "WHERE speedup_low > 0 AND budget <> ? GROUP BY program_hash ORDER BY bound DESC, min(seq)",
        (Fidelity.FINAL.value,),
    )
    top: list[tuple[Fitness, int]] = []
    for position, row in enumerate(bounds):
        if len(top) == count and top[0][0].value >= math.log(row["bound"]):
            break
        fitness = program_fitness(database, row["program_hash"])
        if fitness is not None:
            heapq.heappush(top, (fitness, -position))
            if len(top) > count:
                heapq.heappop(top)
    return [_ranked(database, bounds[-order]["candidate"], fitness) for fitness, order in sorted(top, reverse=True)]


def _ranked(database: Database, name: str, fitness: Fitness) -> Ranked:
    candidate = queries.candidate(database, name)
    return Ranked(candidate, fitness, tuple(queries.evaluations_of(database, candidate.program_hash)))


def curve(database: Database) -> list[CurvePoint]:
    """Return each change of the leader, or of what is known of it, in the order of seq.

    It can go down: where a longer measurement of the leader took back what a short one had promised.
    """
    points: list[CurvePoint] = []
    waiting: list[tuple[float, int, str, str]] = []  # by falling bound: -log low, seq, program, candidate
    leader = ""
    rows = database.rows(
        "SELECT e.seq, j.at, e.program_hash, e.candidate, e.speedup_low, e.budget FROM evaluations e "
        "JOIN journal j ON j.seq = e.seq WHERE e.status <> ? ORDER BY e.seq",
        (Status.HARNESS_ERROR.value,),
    )
    for row in rows:
        bound = -math.log(row["speedup_low"]) if row["speedup_low"] else math.inf
        if row["budget"] != Fidelity.FINAL and bound < math.inf:
            heapq.heappush(waiting, (bound, row["seq"], row["program_hash"], row["candidate"]))
        if row["program_hash"] != leader and waiting and waiting[0][1] != row["seq"]:
            continue  # neither the leader nor a new one
        found = _leader(database, waiting, row["seq"])
        leader = found[0] if found else ""
        if found and (not points or (points[-1].candidate, points[-1].fitness) != found[1:]):
            points.append(CurvePoint(row["seq"], row["at"], found[1], found[2]))
    return points


def _leader(
    database: Database, waiting: list[tuple[float, int, str, str]], until: int
) -> tuple[str, str, Fitness] | None:
    while waiting:
        bound, seq, program, candidate = waiting[0]
        fitness = program_fitness(database, program, until=until)
        if fitness is None:
            heapq.heappop(waiting)
        elif -fitness.value > bound:
            heapq.heapreplace(waiting, (-fitness.value, seq, program, candidate))
        else:
            return program, candidate, fitness
    return None


def counts(database: Database) -> Counts:
    """Return how many results there are of each sort."""
    joined = "FROM results r JOIN proposals p ON p.step = r.step"
    judged = f"{joined} JOIN evaluations e ON e.seq = r.evaluation"
    return Counts(
        by_status=_grouped(database, f"SELECT e.status, count(*) {judged} GROUP BY 1 ORDER BY 2 DESC, 1"),
        by_operator=_grouped(database, f"SELECT p.operator, count(*) {judged} GROUP BY 1 ORDER BY 2 DESC, 1"),
        by_island=_grouped(database, f"SELECT p.island, count(*) {judged} GROUP BY 1 ORDER BY 2 DESC, 1"),
        barren=_grouped(
            database,
            f"SELECT p.operator, count(*) {joined} WHERE r.evaluation IS NULL "
            "AND r.seq NOT IN (SELECT seq FROM insights) GROUP BY 1 ORDER BY 2 DESC, 1",
        ),
        insights=_grouped(
            database,
            "SELECT p.operator, count(*) FROM insights i JOIN proposals p ON p.step = i.step "
            "GROUP BY 1 ORDER BY 2 DESC, 1",
        ),
        reused=int(database.number("SELECT count(*) FROM results WHERE evaluation <> seq")),
        in_flight=int(database.number("SELECT count(*) FROM leases")),
    )


def _grouped(database: Database, sql: str) -> dict[str, int]:
    return {row[0]: row[1] for row in database.rows(sql)}

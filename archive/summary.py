"""Summary of a run: counts, the best programs, the curve of the best so far. It reads facts only."""

import heapq
import math
from dataclasses import dataclass, replace

from archive import queries
from archive.account import RunAccount
from archive.database import Database
from archive.follower import evaluated_candidates
from archive.identity import read_identity
from archive.inbox import banned_programs
from archive.records import StoredCandidate, StoredEvaluation
from evokernel.records.evaluation import Fidelity, Status
from evokernel.records.fitness import Fitness, fitness_of
from evokernel.records.leader import LeaderChange


@dataclass(frozen=True, slots=True)
class Ranked:
    """A program by fitness."""

    candidate: StoredCandidate
    """The first candidate with that program."""
    fitness: Fitness
    """Its fitness by this run's evaluations."""
    evaluations: tuple[StoredEvaluation, ...]
    """All evaluations of the program, oldest first."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of results."""

    by_status: dict[str, int]
    """Results by status of the evaluation."""
    by_operator: dict[str, int]
    """Results by operator."""
    by_island: dict[str, int]
    """Results by island."""
    barren: dict[str, int]
    """Steps without candidate and insight, by operator."""
    insights: dict[str, int]
    """Steps with an insight in place of a candidate, by operator."""
    reused: int
    """Results with a stored evaluation."""
    in_flight: int
    """Proposals without a result."""


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
    """Return the programs of highest fitness, best first; those that a person has banned are left out.

    A program's fitness cannot exceed the highest low end among its timings. Programs are visited in the order of that
    bound, until no other can enter.
    """
    banned = {program for _, program in banned_programs(database)}
    found = database.rows(
        "SELECT program_hash, max(speedup_low) AS bound, candidate FROM evaluations "
        "WHERE speedup_low > 0 AND budget <> ? GROUP BY program_hash ORDER BY bound DESC, min(seq)",
        (Fidelity.FINAL.value,),
    )
    bounds = [row for row in found if row["program_hash"] not in banned]
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


def curve(database: Database) -> list[LeaderChange]:
    """Return each change of the leader, or of its measured speed-up, in the order of seq.

    It can go down: a longer measurement of the leader may take back what a short one had promised.
    """
    account, points = RunAccount(), list[LeaderChange]()
    for evaluated in evaluated_candidates(database):
        account.apply(evaluated)
        lead = account.lead
        if lead is not None and (
            not points or (points[-1].candidate, points[-1].fitness) != (lead.candidate, lead.fitness)
        ):
            points.append(replace(lead, seq=evaluated.seq, at=evaluated.at))
    return points


def counts(database: Database) -> Counts:
    """Return the numbers of results."""
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

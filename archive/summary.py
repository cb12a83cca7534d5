"""Summary of a run: counts, the best programs, the curve of the best so far. It reads facts only."""

import heapq
import math
from dataclasses import dataclass, replace

from archive import queries
from archive.account import RunAccount
from archive.account_facts import evaluated_candidates
from archive.file.database import Database
from archive.file.records import StoredCandidate, StoredEvaluation
from archive.identity import read_identity
from archive.inbox import banned_programs
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
    """Numbers of results; by operator, `archive.views.effort` has them."""

    by_status: dict[str, int]
    """Results by status of the evaluation."""
    insights: int
    """Steps with an insight in place of a candidate."""
    in_flight: int
    """Proposals without a result."""


def program_fitness(database: Database, program_hash: str) -> Fitness | None:
    """Return the fitness of a program from this run's evaluations; faults of our own do not count."""
    identity = read_identity(database)
    counted = [
        stored.evaluation
        for stored in queries.evaluations_of(database, program_hash)
        if stored.evaluation.status is not Status.HARNESS_ERROR
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
    judged = database.rows(
        "SELECT e.status, count(*) FROM results r JOIN evaluations e ON e.seq = r.evaluation "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return Counts(
        by_status={row[0]: row[1] for row in judged},
        insights=int(database.number("SELECT count(*) FROM insights")),
        in_flight=int(database.number("SELECT count(*) FROM leases")),
    )

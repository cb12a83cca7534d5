"""Speed-ups of each program on each workload."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from archive.inbox import banned_programs
from archive.store import Store
from archive.views.timed_programs import timed_programs
from evokernel.records.timing import Z95


@dataclass(frozen=True, slots=True)
class TimedCandidate:
    """A right candidate with the measurement that counts in the search."""

    candidate: str
    """Its id."""
    low: Mapping[str, float]
    """By workload, the low end of the 95 % interval of its speed-up."""
    speedup: Mapping[str, float]
    """By workload, its speed-up."""


def timed_candidates(store: Store) -> list[TimedCandidate]:
    """Return the right candidates, one for each program; those that a person has banned are left out."""
    timed, values = timed_programs(store)
    rows = store.database.rows(
        f"WITH {timed} SELECT program_hash, candidate, timings FROM timed "
        "WHERE program_hash NOT IN (SELECT program_hash FROM refuted)",
        values,
    )
    banned = {program for _, program in banned_programs(store.database)}
    return [
        _candidate(row["candidate"], json.loads(row["timings"])) for row in rows if row["program_hash"] not in banned
    ]


def _candidate(name: str, timings: list[Mapping[str, float]]) -> TimedCandidate:
    speedup = {str(each["workload"]): math.exp(each["log_speedup"]) for each in timings}
    low = {str(each["workload"]): math.exp(each["log_speedup"] - Z95 * each["log_error"]) for each in timings}
    return TimedCandidate(name, low, speedup)

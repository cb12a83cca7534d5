"""Tables over all candidates of a run, each by one query."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from archive.file.texts import unpack
from archive.inbox import banned_programs
from archive.store import Store
from archive.views.effort import STEP_MODELS
from archive.views.timed_programs import timed_programs
from evokernel.records.candidate import EVERYWHERE, SEED
from evokernel.records.evaluation import Fidelity, Mode, Status


@dataclass(frozen=True, slots=True)
class IslandRow:
    """Results of one island."""

    name: str
    """The name of the island."""
    results: int
    """Judged candidates."""
    correct: int
    """Right ones among them."""
    best: float | None
    """The speed-up of its best; None without one."""
    mode: str
    """The mode in which its best ran."""


@dataclass(frozen=True, slots=True)
class CandidateLine:
    """One candidate with its newest verdict."""

    candidate: str
    """Its id."""
    step: int
    """The step that proposed it first."""
    operator: str
    """The operator that proposed it."""
    island: str
    """The population it was proposed for; `*` for all."""
    model: str
    """The model that was asked; empty for one made by rule."""
    rationale: str
    """The reason that the operator gave."""
    predicted: float | None
    """The speed-up that the operator expected."""
    parent: str
    """The id of its first parent; empty without one."""
    refuted: str
    """The newest status that says its program is not right; empty where none does."""
    said: str
    """The newest status of its program; empty where it was not judged."""
    speedup: float | None
    """The speed-up in the search; None where it was not timed."""
    low: float | None
    """The low end of the interval of that speed-up."""
    seq: int | None
    """The fact that holds its first result; None where it waits for one."""
    skeleton: str
    """The hash of its structure: its source without the values of tunables."""


def candidate_lines(store: Store) -> list[CandidateLine]:
    """Return every candidate in the order of its result, those that wait for one last."""
    timed, values = timed_programs(store)
    rows = store.database.rows(
        f"WITH {timed} "
        "SELECT c.id, c.born, p.operator, p.island, coalesce(m.model, p.model), p.rationale, p.predicted_speedup, "
        "coalesce(e.candidate, ''), coalesce(f.status, ''), coalesce((SELECT v.status FROM evaluations v "
        "WHERE v.program_hash = c.program_hash ORDER BY v.seq DESC LIMIT 1), ''), "
        "t.speedup, t.speedup_low, g.seq, c.skeleton "
        "FROM candidates c JOIN proposals p ON p.step = c.born "
        f"LEFT JOIN ({STEP_MODELS}) m ON m.step = c.born "
        "LEFT JOIN parents e ON e.step = c.born AND e.ordinal = 0 AND e.kind = 'parent' "
        "LEFT JOIN timed t ON t.program_hash = c.program_hash LEFT JOIN refuted f ON f.program_hash = c.program_hash "
        "LEFT JOIN results g ON g.step = c.born "
        "ORDER BY g.seq IS NULL, g.seq, c.rowid",
        values,
    )
    return [CandidateLine(*row) for row in rows]


def result_seqs(store: Store) -> dict[int, int]:
    """Return the fact that holds the result of each step that has ended."""
    return {row["step"]: row["seq"] for row in store.database.rows("SELECT step, seq FROM results")}


_JUDGED = "FROM results r JOIN proposals p ON p.step = r.step JOIN evaluations e ON e.seq = r.evaluation"


def results_by_mode(store: Store) -> dict[Mode, int]:
    """Return how many judged results were run in each mode, the most frequent first."""
    rows = store.database.rows(f"SELECT e.mode, count(*) AS results {_JUDGED} GROUP BY 1 ORDER BY 2 DESC, 1")
    return {Mode(row["mode"]): row["results"] for row in rows}


def island_rows(store: Store) -> tuple[IslandRow, ...]:
    """Return the results of each island, by name."""
    # A column beside a maximum, and in no aggregate, is that of the row with the maximum: so SQLite promises.
    rows = store.database.rows(
        "SELECT p.island, count(*) AS results, sum(e.status IS 'ok') AS correct, "
        f"max(CASE WHEN e.budget <> 'final' THEN e.speedup END) AS best, e.mode {_JUDGED} "
        "WHERE p.island <> ? GROUP BY 1 ORDER BY 1",
        (EVERYWHERE,),
    )
    return tuple(IslandRow(*row) for row in rows)


def candidates_with_text(store: Store, text: str) -> Iterator[str]:
    """Yield the ids of all candidates whose source or rationale holds a text, in any case of letters."""
    wanted = text.lower()
    rows = store.database.rows(
        "SELECT c.id, p.rationale, t.body FROM candidates c "
        "JOIN proposals p ON p.step = c.born JOIN texts t ON t.hash = c.text"
    )
    for row in rows:
        if wanted in row["rationale"].lower() or wanted in unpack(row["body"]).lower():
            yield row["id"]


def operators_by_candidate(store: Store) -> dict[str, str]:
    """Return the operator that proposed each candidate first, by its id."""
    rows = store.database.rows("SELECT c.id, p.operator FROM candidates c JOIN proposals p ON p.step = c.born")
    return {row["id"]: row["operator"] for row in rows}


def descriptors_by_candidate(store: Store) -> dict[str, dict[str, float]]:
    """Return the measured behaviour of each right candidate by its id, from the newest evaluation in the search."""
    rows = store.database.rows(
        "SELECT c.id, e.descriptor, max(e.seq) FROM candidates c JOIN evaluations e ON e.program_hash = c.program_hash "
        "WHERE e.status = 'ok' AND e.budget <> 'final' GROUP BY c.id"
    )
    return {row["id"]: {name: float(value) for name, value in json.loads(row["descriptor"]).items()} for row in rows}


def seeds(store: Store) -> list[str]:
    """Return the ids of the candidates the search was given to start from, in the order of their steps."""
    rows = store.database.rows(
        "SELECT c.id FROM candidates c JOIN proposals p ON p.step = c.born WHERE p.operator = ? ORDER BY c.born",
        (SEED,),
    )
    return [row["id"] for row in rows]


def measured_finally(store: Store) -> list[str]:
    """Return ids of candidates whose final measurement gave a time, a program once, oldest first; none is banned."""
    banned = {program for _, program in banned_programs(store.database)}
    rows = store.database.rows(
        "SELECT candidate, program_hash, max(seq) FROM evaluations WHERE budget = ? AND status = ? "
        "GROUP BY program_hash ORDER BY max(seq)",
        (Fidelity.FINAL.value, Status.OK.value),
    )
    return [row["candidate"] for row in rows if row["program_hash"] not in banned]

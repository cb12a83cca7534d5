"""What operators and models gave, and what that cost."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from archive.calls import COST_USD, TOKENS, USABLE, WITHOUT_CALLS
from archive.store import Store
from evokernel.records.llm import CallStatus
from evokernel.report.timing_sql import timed_programs

_MODEL = "CASE model WHEN '' THEN 'unnamed' ELSE model END"  # who answers elsewhere need not say who they are
STEP_MODELS = (
    f"SELECT step, {_MODEL} AS model, max(({USABLE}) * 1000000000 + number) FROM calls WHERE ordinal = 0 GROUP BY step"
)
"""The model of each step: the one that gave the newest usable reply, or was called last where none could be used."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """What one operator gave.

    `results` are judged candidates, `correct` the right ones among them, `improvements` changes of the leader,
    `insights` steps that left words in place of a candidate, `unusable` those whose reply could not be used and
    `barren` those with nothing to offer, or nobody who answered. `best_gain` is the highest speed-up of a right
    candidate over its first parent, None without one.
    """

    name: str
    results: int
    correct: int
    improvements: int
    insights: int
    barren: int
    unusable: int
    calls: int
    tokens: int
    cost_usd: float
    best_gain: float | None

    @property
    def validity(self) -> float | None:
        """The share of right candidates in what was proposed, unusable answers counted; None without any."""
        return _share(self.correct, self.results + self.unusable)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What one model gave, as in `OperatorRow`.

    `failed` are its calls without a usable reply, `open` those that were never heard of again or are under way.
    """

    name: str
    calls: int
    failed: int
    open: int
    tokens: int
    cost_usd: float
    results: int
    correct: int
    insights: int
    unusable: int

    @property
    def validity(self) -> float | None:
        """The share of right candidates in what was proposed, unusable answers counted; None without any."""
        return _share(self.correct, self.results + self.unusable)


@dataclass(frozen=True, slots=True)
class _Cost:
    calls: int = 0
    failed: int = 0
    open: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class _Yield:
    results: int = 0
    correct: int = 0
    insights: int = 0
    barren: int = 0
    unusable: int = 0


def operator_rows(store: Store, led: Counter[str]) -> tuple[OperatorRow, ...]:
    """Return a row for each operator that was asked, the busiest first; `led` counts changes of the leader by name."""
    costs, yields, gains = _costs(store, "operator", "operator"), _yields(store, "p.operator"), best_gains(store)
    return tuple(
        OperatorRow(
            name=name,
            results=given.results,
            correct=given.correct,
            improvements=led[name],
            insights=given.insights,
            barren=given.barren,
            unusable=given.unusable,
            calls=cost.calls,
            tokens=cost.tokens,
            cost_usd=cost.cost_usd,
            best_gain=gains.get(name),
        )
        for name, given, cost in _merged(yields, costs)
    )


def model_rows(store: Store) -> tuple[ModelRow, ...]:
    """Return a row for each model that was asked, the busiest first."""
    costs, yields = _costs(store, _MODEL, "model"), _yields(store, "coalesce(m.model, p.model)")
    return tuple(
        ModelRow(
            name=name,
            calls=cost.calls,
            failed=cost.failed,
            open=cost.open,
            tokens=cost.tokens,
            cost_usd=cost.cost_usd,
            results=given.results,
            correct=given.correct,
            insights=given.insights,
            unusable=given.unusable,
        )
        for name, given, cost in _merged(yields, costs)
        if name
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _merged(yields: Mapping[str, _Yield], costs: Mapping[str, _Cost]) -> list[tuple[str, _Yield, _Cost]]:
    rows = [(name, yields.get(name, _Yield()), costs.get(name, _Cost())) for name in yields.keys() | costs.keys()]
    return sorted(rows, key=lambda row: (-row[1].results, -row[2].calls, row[0]))


def _costs(store: Store, of_call: str, of_proposal: str) -> dict[str, _Cost]:
    waiting = f"(status = '{CallStatus.OPEN}')"
    rows = store.database.rows(
        f"SELECT name, sum(calls), sum(failed), sum(open), total(tokens), total(cost) FROM ("
        f"SELECT {of_call} AS name, count(*) AS calls, sum(NOT {waiting} AND NOT {USABLE}) AS failed, "
        f"sum({waiting}) AS open, sum({TOKENS}) AS tokens, sum({COST_USD}) AS cost FROM calls GROUP BY 1 "
        f"UNION ALL SELECT {of_proposal}, 0, 0, 0, sum(prompt_tokens + completion_tokens), sum(coalesce(cost_usd, 0)) "
        f"{WITHOUT_CALLS} GROUP BY 1) GROUP BY 1"
    )
    return {
        name: _Cost(calls, failed, pending, int(tokens), cost) for name, calls, failed, pending, tokens, cost in rows
    }


_HEARD = f"SELECT DISTINCT step FROM calls WHERE status NOT IN ('{CallStatus.OPEN}', '{CallStatus.FAILED}')"
_USELESS = "(NOT p.exhausted AND (h.step IS NOT NULL OR p.prompt_tokens + p.completion_tokens > 0))"


def _yields(store: Store, name: str) -> dict[str, _Yield]:
    nothing = "r.evaluation IS NULL AND i.seq IS NULL"
    rows = store.database.rows(
        f"SELECT {name}, count(e.seq), sum(e.status IS 'ok'), count(i.seq), "
        f"sum({nothing} AND NOT {_USELESS}), sum({nothing} AND {_USELESS}) "
        "FROM results r JOIN proposals p ON p.step = r.step LEFT JOIN evaluations e ON e.seq = r.evaluation "
        f"LEFT JOIN insights i ON i.seq = r.seq LEFT JOIN ({STEP_MODELS}) m ON m.step = p.step "
        f"LEFT JOIN ({_HEARD}) h ON h.step = p.step GROUP BY 1"
    )
    return {row[0]: _Yield(*row[1:]) for row in rows}


def best_gains(store: Store) -> dict[str, float]:
    """Return, by operator, the highest speed-up of a right candidate over its first parent, both as in the search."""
    timed, values = timed_programs(store)
    rows = store.database.rows(
        f"WITH {timed} SELECT p.operator AS name, max(child.speedup / parent.speedup) AS gain FROM results r "
        "JOIN proposals p ON p.step = r.step JOIN candidates c ON c.id = p.candidate "
        "JOIN parents e ON e.step = p.step AND e.ordinal = 0 AND e.kind = 'parent' "
        "JOIN candidates q ON q.id = e.candidate JOIN timed child ON child.program_hash = c.program_hash "
        "JOIN timed parent ON parent.program_hash = q.program_hash "
        "WHERE c.program_hash NOT IN (SELECT program_hash FROM refuted) GROUP BY 1",
        values,
    )
    return {row["name"]: row["gain"] for row in rows if row["gain"] is not None}


def device_s(metrics: Mapping[str, float], duration_s: float) -> float:
    """Return the time of an evaluation on the device, in s; all of it where checks and timing were not told apart."""
    return sum(metrics.get(name, 0.0) for name in ("check_s", "time_s")) or duration_s


def device_seconds(store: Store) -> float:
    """Return how long candidates of this run were on the device, in s; what a fork copied took its time elsewhere."""
    rows = store.database.rows("SELECT metrics, duration_s FROM evaluations WHERE origin = ''")
    return sum(device_s(_numbers(row["metrics"]), row["duration_s"] or 0.0) for row in rows)


def _numbers(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in json.loads(text).items()}

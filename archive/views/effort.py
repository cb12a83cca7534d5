"""Effort of a run: calls, tokens, dollars and device time, by step, operator and model, and the outcomes."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archive.calls import COST_USD, TOKENS, USABLE, WITHOUT_CALLS, failed_tries
from archive.store import Store
from archive.views.timed_programs import timed_programs
from evokernel.records.llm import CallStatus

_MODEL = "CASE model WHEN '' THEN 'unnamed' ELSE model END"  # an answer from elsewhere need not name its author
STEP_MODELS = (
    f"SELECT step, {_MODEL} AS model, max(({USABLE}) * 1000000000 + number) FROM calls WHERE ordinal = 0 GROUP BY step"
)
"""The model of each step: the one that gave the newest usable reply, or was called last where none could be used."""


@dataclass(frozen=True, slots=True)
class CallCosts:
    """Totals over calls of models."""

    calls: int = 0
    """Calls, failed ones among them."""
    failed: int = 0
    """Calls without a usable reply."""
    open: int = 0
    """Calls under way, or cut off by a kill."""
    tokens: int = 0
    """Tokens of prompts and replies."""
    cost_usd: float = 0.0
    """Their price, in dollars."""


@dataclass(frozen=True, slots=True)
class StepOutcomes:
    """Counts of the ways in which steps ended."""

    results: int = 0
    """Judged candidates."""
    correct: int = 0
    """Right ones among them."""
    insights: int = 0
    """Steps that left an insight in place of a candidate."""
    barren: int = 0
    """Steps whose operator had nothing to offer, or whose model did not answer."""
    unusable: int = 0
    """Steps whose reply could not be used."""


@dataclass(frozen=True, slots=True)
class StepEffort:
    """Totals over the calls of models for one step."""

    model: str
    """The model that gave the newest usable reply."""
    calls: int
    """Calls, failed ones among them."""
    tokens: int
    """Tokens of prompts and replies."""
    cost_usd: float
    """Their price, in dollars."""


@dataclass(frozen=True, slots=True)
class PairEffort:
    """Totals over the steps of an operator with a model."""

    operator: str
    """Name of the operator."""
    model: str
    """Name of the model that answered; empty for a rule."""
    tries: int = 0
    """Steps that ended, those among them that the model was asked for in vain."""
    correct: int = 0
    """Right candidates among them."""
    gain: float = 0.0
    """Sum of the gains over the best parent, as natural logarithms of speed-ups; a loss counts as 0."""
    tokens: int = 0
    """Tokens of prompts and replies."""
    cost_usd: float = 0.0
    """Price of its calls, in dollars."""
    device_s: float = 0.0
    """Time of its candidates on the device, in s, and of the kernels that an agent had judged before."""

    @property
    def gain_per_dollar(self) -> float | None:
        """The gain for a dollar paid to models; None where none is known to be paid."""
        return self.gain / self.cost_usd if self.cost_usd else None

    @property
    def gain_per_device_hour(self) -> float | None:
        """The gain for an hour of the device; None without time on it."""
        return 3600 * self.gain / self.device_s if self.device_s else None


def efforts_by_pair(store: Store) -> list[PairEffort]:
    """Return the effort of each operator with each model in this run, the most tried first.

    Steps that a fork copied are left out. A model that was called without a reply has a try of its own, at its cost,
    beside the model that answered in its place. The gain of a repair is over the parent of the failed candidate.
    """
    timed, values = timed_programs(store)
    rows = store.database.rows(
        f"WITH {timed} SELECT p.step, p.operator, coalesce(m.model, p.model) AS model, p.candidate, p.origin, "
        "t.speedup, e.status, e.metrics, e.duration_s, e.seq IS r.seq AS fresh FROM results r "
        "JOIN proposals p ON p.step = r.step LEFT JOIN candidates c ON c.id = p.candidate "
        "LEFT JOIN evaluations e ON e.seq = r.evaluation LEFT JOIN timed t ON t.program_hash = c.program_hash "
        f"AND t.program_hash NOT IN (SELECT program_hash FROM refuted) LEFT JOIN ({STEP_MODELS}) m ON m.step = p.step",
        values,
    )
    edges = store.database.rows("SELECT step, candidate FROM parents WHERE kind = 'parent' ORDER BY step, ordinal")
    parents: dict[int, list[str]] = {}
    for step, parent in edges:
        parents.setdefault(step, []).append(parent)
    made = {row["candidate"]: parents.get(row["step"], []) for row in rows if row["candidate"]}
    speedups = {row["candidate"]: row["speedup"] for row in rows if row["speedup"]}
    own = f"WHERE NOT (c.status = '{CallStatus.FAILED}' AND c.model IS NOT m.model)"
    costs, found = _step_efforts(store, own, ()), dict[tuple[str, str], PairEffort]()
    failures, looks = failed_tries(store.database, "TRUE", ()), look_seconds(store)
    for row in rows:
        if row["origin"] or row["operator"] == "seed":
            continue
        before = found.get((row["operator"], row["model"]), PairEffort(row["operator"], row["model"]))
        sources = _right_sources(made.get(row["candidate"], []), made, speedups)
        gain = math.log(row["speedup"] / max(sources)) if row["speedup"] and sources else 0.0
        cost = costs.get(row["step"])
        looked_s = looks.get(row["step"], {})
        for failed in failures.get(row["step"], ()):
            if failed.model == row["model"]:
                continue
            tried = found.get((row["operator"], failed.model), PairEffort(row["operator"], failed.model))
            found[row["operator"], failed.model] = replace(
                tried,
                tries=tried.tries + 1,
                tokens=tried.tokens + failed.prompt_tokens,
                cost_usd=tried.cost_usd + failed.cost_usd,
                device_s=tried.device_s + looked_s.get(failed.model, 0.0),
            )
        taken_s = device_s(_numbers(row["metrics"]), row["duration_s"] or 0.0) if row["fresh"] else 0.0
        found[row["operator"], row["model"]] = replace(
            before,
            tries=before.tries + 1,
            correct=before.correct + (row["status"] == "ok"),
            gain=before.gain + max(0.0, gain),
            tokens=before.tokens + (cost.tokens if cost else 0),
            cost_usd=before.cost_usd + (cost.cost_usd if cost else 0.0),
            device_s=before.device_s + taken_s + looked_s.get(row["model"], 0.0),
        )
    return sorted(found.values(), key=lambda each: (-each.tries, each.operator, each.model))


def _right_sources(
    parents: Sequence[str], made: Mapping[str, Sequence[str]], speedups: Mapping[str, float]
) -> list[float]:
    """Return the speed-ups of the right parents; in place of failed ones those of their own parents."""
    seen, waiting = set[str](), list(parents)
    while waiting:
        if found := [speedups[name] for name in waiting if name in speedups]:
            return found
        seen.update(waiting)
        waiting = [name for failed in waiting for name in made.get(failed, ()) if name not in seen]
    return []


def costs_by_operator(store: Store) -> dict[str, CallCosts]:
    """Return the costs of models by the operator that asked them."""
    return _costs(store, "operator", "operator")


def costs_by_model(store: Store) -> dict[str, CallCosts]:
    """Return the costs of models by name."""
    return _costs(store, _MODEL, "model")


def outcomes_by_operator(store: Store) -> dict[str, StepOutcomes]:
    """Return the outcomes of steps by operator."""
    return _outcomes(store, "p.operator")


def outcomes_by_model(store: Store) -> dict[str, StepOutcomes]:
    """Return the outcomes of steps by model; an empty name for steps without one."""
    return _outcomes(store, "coalesce(m.model, p.model)")


def _costs(store: Store, of_call: str, of_proposal: str) -> dict[str, CallCosts]:
    waiting = f"(status = '{CallStatus.OPEN}')"
    rows = store.database.rows(
        f"SELECT name, sum(calls), sum(failed), sum(open), total(tokens), total(cost) FROM ("
        f"SELECT {of_call} AS name, count(*) AS calls, sum(NOT {waiting} AND NOT {USABLE}) AS failed, "
        f"sum({waiting}) AS open, sum({TOKENS}) AS tokens, sum({COST_USD}) AS cost FROM calls GROUP BY 1 "
        f"UNION ALL SELECT {of_proposal}, 0, 0, 0, sum(prompt_tokens + completion_tokens), sum(coalesce(cost_usd, 0)) "
        f"{WITHOUT_CALLS} GROUP BY 1) GROUP BY 1"
    )
    return {
        name: CallCosts(calls, failed, pending, int(tokens), cost)
        for name, calls, failed, pending, tokens, cost in rows
    }


_ANSWERED = f"SELECT DISTINCT step FROM calls WHERE status NOT IN ('{CallStatus.OPEN}', '{CallStatus.FAILED}')"
_USELESS = "(NOT p.exhausted AND (h.step IS NOT NULL OR p.prompt_tokens + p.completion_tokens > 0))"


def _outcomes(store: Store, name: str) -> dict[str, StepOutcomes]:
    nothing = "r.evaluation IS NULL AND i.seq IS NULL"
    rows = store.database.rows(
        f"SELECT {name}, count(e.seq), sum(e.status IS 'ok'), count(i.seq), "
        f"sum({nothing} AND NOT {_USELESS}), sum({nothing} AND {_USELESS}) "
        "FROM results r JOIN proposals p ON p.step = r.step LEFT JOIN evaluations e ON e.seq = r.evaluation "
        f"LEFT JOIN insights i ON i.seq = r.seq LEFT JOIN ({STEP_MODELS}) m ON m.step = p.step "
        f"LEFT JOIN ({_ANSWERED}) h ON h.step = p.step GROUP BY 1"
    )
    return {row[0]: StepOutcomes(*row[1:]) for row in rows}


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


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """Gains that models predicted, and what came of them."""

    results: int = 0
    """Judged candidates that came with a predicted gain over their first parent."""
    predicted: float = 0.0
    """Sum of the predicted gains, as natural logarithms of speed-ups."""
    measured: float = 0.0
    """Sum of the gains of these candidates as in the search; one that failed or lost counts as 0."""

    @property
    def kept_share(self) -> float | None:
        """The share of the predicted gain that was measured; None without any prediction."""
        return self.measured / self.predicted if self.predicted else None


def predicted_gains(store: Store) -> ExpectedGain:
    """Return what candidates of models were predicted to gain, and gained."""
    timed, values = timed_programs(store)
    rows = store.database.rows(
        f"WITH {timed} SELECT p.predicted_speedup AS predicted, child.speedup / parent.speedup AS measured "
        "FROM results r JOIN proposals p ON p.step = r.step JOIN candidates c ON c.id = p.candidate "
        "JOIN parents e ON e.step = p.step AND e.ordinal = 0 AND e.kind = 'parent' "
        "JOIN candidates q ON q.id = e.candidate JOIN timed parent ON parent.program_hash = q.program_hash "
        "LEFT JOIN timed child ON child.program_hash = c.program_hash "
        "AND c.program_hash NOT IN (SELECT program_hash FROM refuted) "
        "WHERE p.model <> '' AND p.predicted_speedup > 1",
        values,
    )
    return ExpectedGain(
        results=len(rows),
        predicted=sum(math.log(row["predicted"]) for row in rows),
        measured=sum(math.log(max(1.0, row["measured"] or 1.0)) for row in rows),
    )


def step_efforts(store: Store, step: int | None = None) -> dict[int, StepEffort]:
    """Return the effort of models by step, for steps that called them; with `step`, for that one only."""
    return _step_efforts(store, "", ()) if step is None else _step_efforts(store, "WHERE c.step = ?", (step,))


def _step_efforts(store: Store, where: str, values: tuple[object, ...]) -> dict[int, StepEffort]:
    rows = store.database.rows(
        f"SELECT c.step, m.model, count(*) AS calls, sum({TOKENS}) AS tokens, sum({COST_USD}) AS cost FROM calls c "
        f"LEFT JOIN ({STEP_MODELS}) m ON m.step = c.step {where} GROUP BY c.step",
        values,
    )
    return {row["step"]: StepEffort(row["model"] or "", row["calls"], row["tokens"], row["cost"]) for row in rows}


def device_s(metrics: Mapping[str, float], duration_s: float) -> float:
    """Return the time of an evaluation on the device, in s; the whole duration without times of checks and timing."""
    return sum(metrics.get(name, 0.0) for name in ("check_s", "time_s")) or duration_s


def device_seconds(store: Store) -> float:
    """Return how long candidates of this run were on the device, in s; copies of a fork do not count.

    Kernels that agents had judged and did not hand in count.
    """
    rows = store.database.rows("SELECT metrics, duration_s FROM evaluations WHERE origin = ''")
    looked_s = sum(sum(agents.values()) for agents in look_seconds(store).values())
    return looked_s + sum(device_s(_numbers(row["metrics"]), row["duration_s"] or 0.0) for row in rows)


def look_seconds(store: Store) -> dict[int, dict[str, float]]:
    """Return how long kernels that agents did not hand in were on the device, in s, by step and agent."""
    rows = store.database.rows(
        "SELECT i.step, author, total(i.device_s) AS seconds FROM (SELECT author, json_extract(payload, '$.step') AS "
        "step, json_extract(payload, '$.device_s') AS device_s, json_extract(payload, '$.verdict.candidate') AS name "
        "FROM inbox WHERE kind = 'look') i LEFT JOIN proposals p ON p.step = i.step "
        "WHERE i.device_s > 0 AND p.candidate IS NOT i.name GROUP BY 1, 2"
    )
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["step"], {})[row["author"]] = row["seconds"]
    return found


def _numbers(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in json.loads(text).items()}

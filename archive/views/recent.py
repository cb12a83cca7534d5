"""Work of a run since a moment: what was judged and paid."""

from dataclasses import dataclass

from archive.calls import COST_USD, MADE_HERE, TOKENS, WITHOUT_CALLS
from archive.store import Store
from evokernel.records.llm import Spending

_JUDGED = (
    "SELECT count(*), coalesce(sum(e.status = 'ok'), 0) FROM journal j JOIN results r ON r.seq = j.seq "
    "JOIN evaluations e ON e.seq = r.evaluation JOIN proposals p ON p.step = r.step WHERE j.at > ? AND p.origin = ''"
)
_PAID = (
    "SELECT coalesce(sum(calls), 0), coalesce(sum(tokens), 0), coalesce(sum(cost), 0.0) FROM "
    f"(SELECT 1 AS calls, {TOKENS} AS tokens, {COST_USD} AS cost, at FROM calls WHERE {MADE_HERE} "
    f"UNION ALL SELECT 0, prompt_tokens + completion_tokens, coalesce(cost_usd, 0.0), at {WITHOUT_CALLS}) WHERE at > ?"
)


@dataclass(frozen=True, slots=True)
class RecentWork:
    """Work of a run since a moment."""

    results: int
    """Number of judged candidates; what a fork copied is none."""
    correct: int
    """Number of right ones among them."""
    spent: Spending
    """Costs of models."""


def work_since(store: Store, at: float) -> RecentWork:
    """Return the work of a run after a moment, in s since 1970."""
    ((results, correct),) = store.database.rows(_JUDGED, (at,))
    ((calls, tokens, cost_usd),) = store.database.rows(_PAID, (at,))
    return RecentWork(results, correct, Spending(calls, tokens, cost_usd))

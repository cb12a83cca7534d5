"""Results and cost of operators and models."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import yaml

from archive.store import Store
from archive.views.effort import (
    CallCosts,
    StepOutcomes,
    best_gains,
    costs_by_model,
    costs_by_operator,
    outcomes_by_model,
    outcomes_by_operator,
)


@dataclass(frozen=True, slots=True)
class EffortRow:
    """Results and cost of one operator, or of one model."""

    name: str
    results: int
    """Number of judged candidates."""
    correct: int
    """Number of right ones among `results`."""
    insights: int
    """Steps that left words in place of a candidate."""
    barren: int
    """Steps with nothing to propose, or without an answer."""
    unusable: int
    """Steps whose reply could not be used."""
    calls: int
    """Requests to models."""
    failed: int
    """Calls without a usable reply."""
    open: int
    """Calls that are under way or were lost."""
    tokens: int
    """Prompt and completion tokens."""
    cost_usd: float
    improvements: int = 0
    """Changes of the leader; not counted of a model."""
    best_gain: float | None = None
    """Highest speed-up of a right candidate over its first parent; None without one, and of a model."""

    @property
    def validity(self) -> float | None:
        """The share of right candidates in what was proposed, unusable answers counted; None without any."""
        proposed = self.results + self.unusable
        return self.correct / proposed if proposed else None


@lru_cache(maxsize=32)
def prices_known(config: str) -> bool:
    """Say whether a cost of 0 is 0: each model of a config as YAML has a price, or is a recording."""
    settings = yaml.safe_load(config) if config else {}
    models = settings.get("models", ()) if isinstance(settings, dict) else ()
    return bool(models) and all(
        model.get("price") or model.get("replay") or model.get("agent_dollars") is not None for model in models
    )


def operator_rows(store: Store, led: Counter[str]) -> tuple[EffortRow, ...]:
    """Return a row for each operator that was asked, the busiest first; `led` counts changes of the leader by name."""
    costs, outcomes, gains = costs_by_operator(store), outcomes_by_operator(store), best_gains(store)
    rows = _merged(outcomes, costs)
    return tuple(replace(row, improvements=led[row.name], best_gain=gains.get(row.name)) for row in rows)


def model_rows(store: Store) -> tuple[EffortRow, ...]:
    """Return a row for each model that was asked, the busiest first."""
    return tuple(row for row in _merged(outcomes_by_model(store), costs_by_model(store)) if row.name)


def _merged(outcomes: Mapping[str, StepOutcomes], costs: Mapping[str, CallCosts]) -> list[EffortRow]:
    rows = [
        EffortRow(name, **asdict(outcomes.get(name, StepOutcomes())), **asdict(costs.get(name, CallCosts())))
        for name in outcomes.keys() | costs.keys()
    ]
    return sorted(rows, key=lambda row: (-row.results, -row.calls, row.name))

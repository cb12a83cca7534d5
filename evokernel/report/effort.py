"""Results and cost of operators and models."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import yaml

from archive.effort import (
    CallCosts,
    StepOutcomes,
    best_gains,
    costs_by_model,
    costs_by_operator,
    outcomes_by_model,
    outcomes_by_operator,
)
from archive.store import Store


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """Results and cost of one operator."""

    name: str
    results: int
    """Number of judged candidates."""
    correct: int
    """Number of right ones among `results`."""
    improvements: int
    """Changes of the leader."""
    insights: int
    """Steps that left words in place of a candidate."""
    barren: int
    """Steps with nothing to propose, or without an answer."""
    unusable: int
    """Steps whose reply could not be used."""
    calls: int
    """Requests to models."""
    tokens: int
    """Prompt and completion tokens."""
    cost_usd: float
    best_gain: float | None
    """Highest speed-up of a right candidate over its first parent; None without one."""

    @property
    def validity(self) -> float | None:
        """The share of right candidates in what was proposed, unusable answers counted; None without any."""
        return _share(self.correct, self.results + self.unusable)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Results and cost of one model."""

    name: str
    calls: int
    failed: int
    """Calls without a usable reply."""
    open: int
    """Calls that are under way or were lost."""
    tokens: int
    cost_usd: float
    results: int
    """Number of judged candidates."""
    correct: int
    """Number of right ones among `results`."""
    insights: int
    """Steps that left words in place of a candidate."""
    unusable: int
    """Steps whose reply could not be used."""

    @property
    def validity(self) -> float | None:
        """The share of right candidates in what was proposed, unusable answers counted; None without any."""
        return _share(self.correct, self.results + self.unusable)


@lru_cache(maxsize=32)
def prices_known(config: str) -> bool:
    """Say whether a cost of 0 is 0: each model of a config as YAML has a price, or is a recording."""
    settings = yaml.safe_load(config) if config else {}
    models = settings.get("models", ()) if isinstance(settings, dict) else ()
    return bool(models) and all(
        model.get("price") or model.get("replay") or model.get("agent_dollars") is not None for model in models
    )


def operator_rows(store: Store, led: Counter[str]) -> tuple[OperatorRow, ...]:
    """Return a row for each operator that was asked, the busiest first; `led` counts changes of the leader by name."""
    costs, outcomes, gains = costs_by_operator(store), outcomes_by_operator(store), best_gains(store)
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
        for name, given, cost in _merged(outcomes, costs)
    )


def model_rows(store: Store) -> tuple[ModelRow, ...]:
    """Return a row for each model that was asked, the busiest first."""
    costs, outcomes = costs_by_model(store), outcomes_by_model(store)
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
        for name, given, cost in _merged(outcomes, costs)
        if name
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _merged(
    outcomes: Mapping[str, StepOutcomes], costs: Mapping[str, CallCosts]
) -> list[tuple[str, StepOutcomes, CallCosts]]:
    names = outcomes.keys() | costs.keys()
    rows = [(name, outcomes.get(name, StepOutcomes()), costs.get(name, CallCosts())) for name in names]
    return sorted(rows, key=lambda row: (-row[1].results, -row[2].calls, row[0]))

"""When a search is over. Each rule is a few lines behind `Stopper`; the first that speaks ends the run."""

from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.config.registry import resolve
from evokernel.config.run import BudgetConfig
from evokernel.protocols import Stopper
from evokernel.records.run import Progress


@dataclass(frozen=True, slots=True)
class AfterEvaluations:
    """Stop after this many candidates were judged."""

    limit: int

    def reason(self, progress: Progress) -> str | None:
        """Say so when the number is reached."""
        return f"budget of {self.limit} evaluations used" if progress.evaluations >= self.limit else None

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of evaluations left."""
        return max(0.0, 1.0 - progress.evaluations / self.limit)


@dataclass(frozen=True, slots=True)
class AfterHours:
    """Stop after this many hours of running, over all sessions."""

    limit: float

    def reason(self, progress: Progress) -> str | None:
        """Say so when the time is used."""
        return f"budget of {self.limit:g} h used" if progress.seconds >= self.limit * 3600 else None

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of time left."""
        return max(0.0, 1.0 - progress.seconds / (self.limit * 3600))


@dataclass(frozen=True, slots=True)
class AfterDollars:
    """Stop after this much was spent on models."""

    limit: float

    def reason(self, progress: Progress) -> str | None:
        """Say so when the money is spent."""
        return f"budget of ${self.limit:g} used" if progress.cost_usd >= self.limit else None

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of money left."""
        return max(0.0, 1.0 - progress.cost_usd / self.limit)


@dataclass(frozen=True, slots=True)
class AfterTokens:
    """Stop after models have read and written this many tokens."""

    limit: int

    def reason(self, progress: Progress) -> str | None:
        """Say so when the number is reached."""
        return f"budget of {self.limit} tokens used" if progress.tokens >= self.limit else None

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of tokens left."""
        return max(0.0, 1.0 - progress.tokens / self.limit)


@dataclass(frozen=True, slots=True)
class AfterCalls:
    """Stop after this many calls of models, failed ones among them."""

    limit: int

    def reason(self, progress: Progress) -> str | None:
        """Say so when the number is reached."""
        return f"budget of {self.limit} calls used" if progress.calls >= self.limit else None

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of calls left."""
        return max(0.0, 1.0 - progress.calls / self.limit)


@dataclass(frozen=True, slots=True)
class OnPlateau:
    """Stop after this many evaluations without a better kernel."""

    limit: int

    def reason(self, progress: Progress) -> str | None:
        """Say so when the search has stood still for long enough."""
        return f"no better kernel in {self.limit} evaluations" if progress.since_improvement >= self.limit else None

    def remaining(self, progress: Progress) -> float | None:
        """Return nothing: a better kernel may turn up any time."""
        return None


@dataclass(frozen=True, slots=True)
class AtRoofline:
    """Stop when the best kernel reaches this share of the device's physical limit."""

    share: float

    def reason(self, progress: Progress) -> str | None:
        """Say so when the share is reached."""
        if progress.roofline_share is None or progress.roofline_share < self.share:
            return None
        return f"best kernel runs at {progress.roofline_share:.0%} of the device's limit"

    def remaining(self, progress: Progress) -> float | None:
        """Return nothing: progress towards a limit is not even."""
        return None


@dataclass(frozen=True, slots=True)
class FirstOf:
    """Stop when any of several rules says so."""

    stoppers: Sequence[Stopper]

    def reason(self, progress: Progress) -> str | None:
        """Return the first reason given."""
        return next((reason for stopper in self.stoppers if (reason := stopper.reason(progress))), None)

    def remaining(self, progress: Progress) -> float | None:
        """Return the smallest share left among the rules that know one."""
        shares = [share for stopper in self.stoppers if (share := stopper.remaining(progress)) is not None]
        return min(shares, default=None)


def stopper_from(budget: BudgetConfig) -> FirstOf:
    """Return the rules a budget asks for. Raises `ConfigError` for one that cannot be imported."""
    rules: list[Stopper] = []
    if budget.evaluations is not None:
        rules.append(AfterEvaluations(budget.evaluations))
    if budget.hours is not None:
        rules.append(AfterHours(budget.hours))
    if budget.dollars is not None:
        rules.append(AfterDollars(budget.dollars))
    if budget.tokens is not None:
        rules.append(AfterTokens(budget.tokens))
    if budget.calls is not None:
        rules.append(AfterCalls(budget.calls))
    if budget.plateau is not None:
        rules.append(OnPlateau(budget.plateau))
    if budget.roofline is not None:
        rules.append(AtRoofline(budget.roofline))
    rules += [resolve(name, {}, "stopper")() for name in budget.stoppers]
    return FirstOf(tuple(rules))

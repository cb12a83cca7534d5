"""Stoppers: one table of the limits of a budget; the first one reached ends the run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evokernel.config.registry import make
from evokernel.config.run import BudgetConfig
from evokernel.config.session_budget import RUN_LIMIT, word_for
from evokernel.engine.plugin_parts import PluginStopper
from evokernel.protocols import Stopper
from evokernel.records.run import Progress


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """One limit that a budget may have, under the name of its setting."""

    used: Callable[[Progress], float | None]
    """Read the amount used, in the unit of the setting; None where it is not known."""
    reason: str
    """Reason to stop, with `{limit}` for the setting, `{s}` for its plural, `{used}` for the amount used."""
    even: bool = True
    """It is used up evenly, so that the share left predicts the end of the run."""


LIMITS = {
    "evaluations": BudgetLimit(lambda p: p.evaluations, "budget of {limit} evaluation{s} used"),
    "hours": BudgetLimit(lambda p: p.seconds / 3600, "budget of {limit:g} h used"),
    "dollars": BudgetLimit(lambda p: p.cost_usd, "budget of ${limit:g} used"),
    "tokens": BudgetLimit(lambda p: p.tokens, "budget of {limit} token{s} used"),
    "calls": BudgetLimit(lambda p: p.calls, "budget of {limit} call{s} used"),
    "plateau": BudgetLimit(lambda p: p.since_improvement, "no better kernel in {limit} evaluation{s}", even=False),
    "roofline": BudgetLimit(
        lambda p: p.roofline_share, "best kernel runs at {used:.0%} of the device's limit", even=False
    ),
}
"""By setting of `BudgetConfig`. Tokens and dollars are checked before each call of a model too: see `llm/ledger.py`."""

ASKING = ("dollars", "tokens", "calls")
"""The limits on calls of models."""


@dataclass(frozen=True, slots=True)
class AtLimit:
    """Stop when a limit of the budget is reached."""

    rule: BudgetLimit
    """The limit."""
    limit: float
    """Its setting."""
    word: str = RUN_LIMIT
    """The word for it in the reason."""

    def reason(self, progress: Progress) -> str | None:
        """Say so when it is reached."""
        used = self.rule.used(progress)
        if used is None or used < self.limit:
            return None
        plural = "" if self.limit == 1 else "s"
        return self.rule.reason.format(limit=self.limit, s=plural, used=used).replace(RUN_LIMIT, self.word, 1)

    def remaining(self, progress: Progress) -> float | None:
        """Return the share left; None where it is not used up evenly."""
        used = self.rule.used(progress)
        return max(0.0, 1.0 - used / self.limit) if self.rule.even and used is not None else None


@dataclass(frozen=True, slots=True)
class FirstOf:
    """Stop when the first of several rules stops."""

    stoppers: Sequence[Stopper]

    @property
    def seconds(self) -> float:
        """The time of all sessions after which it stops, in s; infinite without such a limit."""
        hours = LIMITS["hours"]
        limits = [each.limit for each in self.stoppers if isinstance(each, AtLimit) and each.rule is hours]
        return 3600 * min(limits, default=math.inf)

    def reason(self, progress: Progress) -> str | None:
        """Return the first reason given."""
        return next((reason for stopper in self.stoppers if (reason := stopper.reason(progress))), None)

    def remaining(self, progress: Progress) -> float | None:
        """Return the smallest share left among the rules that know one."""
        shares = [share for stopper in self.stoppers if (share := stopper.remaining(progress)) is not None]
        return min(shares, default=None)


def stopper_from(budget: BudgetConfig) -> FirstOf:
    """Return the rules a budget asks for. Raises `ConfigError` for one that cannot be imported."""
    left_out = ASKING if budget.when_spent == "rules" else ()
    settings = ((name, rule, getattr(budget, name)) for name, rule in LIMITS.items() if name not in left_out)
    rules: list[Stopper] = [
        AtLimit(rule, limit, word_for(budget, name)) for name, rule, limit in settings if limit is not None
    ]
    rules += [PluginStopper(make(name, {}, "stopper"), f"stopper {name!r}") for name in budget.stoppers]
    return FirstOf(tuple(rules))

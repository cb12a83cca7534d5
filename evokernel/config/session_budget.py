"""Limits of one session alone, such as a slice of a queue: neither stored nor told as the budget of its run."""

from evokernel.config.run import BudgetConfig

SESSION_LIMIT = "session's limit"
"""Begins the reason of a session that ended by a limit of its own."""
RUN_LIMIT = "budget"
"""Begins the reason of one that ended by a limit of its run."""


class SessionBudget(BudgetConfig):
    """The limits that end one session: those of its run, or smaller ones of its own, all in the run's totals."""

    own: frozenset[str] = frozenset()
    """Settings that hold for this session alone."""


def session_budget(
    budget: BudgetConfig, *, hours: float | None, dollars: float | None, cap: float | None
) -> SessionBudget:
    """Return the limits of a session.

    Args:
        budget: of the run.
        hours: the session's limit of the run's hours, over all sessions; None for none.
        dollars: the session's limit of the run's dollars, over all sessions; None for none.
        cap: the dollars that the config or an option sets; a cap by default or of an earlier session gives way.
    """
    own = {}
    if hours is not None and (budget.hours is None or hours < budget.hours):
        own["hours"] = hours
    if dollars is not None and (cap is None or dollars < cap):
        own["dollars"] = dollars
    return SessionBudget(**{**dict(budget), **own, "own": frozenset(own)})


def word_for(budget: BudgetConfig, name: str) -> str:
    """Return the word for a limit, by the name of its setting, in a reason to stop."""
    return SESSION_LIMIT if isinstance(budget, SessionBudget) and name in budget.own else RUN_LIMIT

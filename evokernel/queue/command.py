"""The command of a session, with its share of the limits of a night."""

import math
import os
import sys
from dataclasses import dataclass

from evokernel.config.model_choice import VARIABLE
from evokernel.config.run import RunConfig
from evokernel.queue.records import QueueEntry, SliceLimits, StoreFacts

EVOKERNEL = (sys.executable, "-m", "evokernel")
"""The command line, in this interpreter."""
CLOSING_S = 180.0
"""Time of a slice that is kept for the start and the final measurements of its session, in s, at most."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits in the command of a session, beside those of its config: they end the session, and are not stored."""

    hours: float
    """Limit of the run's hours, over all sessions."""
    dollars: float | None = None
    """Limit of the run's dollars, over all sessions; None for the config's."""
    all_dollars: bool = False
    """The limit is all that the night has left."""


def asks_models(config: RunConfig, before: StoreFacts) -> bool:
    """Say whether a session would ask models: those of the config, of the store, or of the environment."""
    of_environment = bool(os.environ.get(VARIABLE)) and not before.device and "models" not in config.model_fields_set
    return bool(config.models) or before.models or of_environment


def rules_go_on(config: RunConfig, before: StoreFacts) -> bool:
    """Say whether a session goes on by rules once no money is left, as `chosen_models` settles it."""
    if config.models or "models" in config.model_fields_set:
        return config.budget.when_spent == "rules"
    return before.when_spent == "rules" if before.models else True


def agent_s(config: RunConfig) -> float:
    """Return the longest that a call of an agent may take, in s; 0 without agents."""
    return max((model.timeout_s for model in config.models if model.agent), default=0.0)


def least_seconds(call_s: float) -> float:
    """Return the shortest slice in which calls of an agent can end, in s: one call, and another that began at its end.

    `call_s` is the longest call, as `agent_s` returns it; 0 gives 0.
    """
    return 2 * call_s + CLOSING_S if call_s else 0.0


def session_limits(before: StoreFacts, limits: SliceLimits, *, call_s: float = 0.0) -> SessionLimits:
    """Return the limits of a session's command.

    No call begins in the time that is kept for the end, so that a call of an agent, which takes at most `call_s`, has
    that much more to end.
    """
    closing = CLOSING_S + call_s
    share = closing / least_seconds(call_s) if call_s else 0.4
    seconds = limits.seconds - min(closing, share * limits.seconds)
    hours = float(f"{(before.seconds + seconds) / 3600:.6f}")
    if limits.dollars is None:
        return SessionLimits(hours)
    return SessionLimits(hours, dollars=math.floor(max(1e-6, before.dollars + limits.dollars) * 1e6) / 1e6)


def command_of(entry: QueueEntry, told: SessionLimits) -> list[str]:
    """Return the command of a session."""
    options = [word for setting in entry.settings for word in ("--set", setting)]
    money = [] if told.dollars is None else ["--session-dollars", repr(told.dollars)]
    limits = ["--session-hours", repr(told.hours), *money]
    return [*EVOKERNEL, "evolve", str(entry.config), "--store", str(entry.store), *options, *limits]

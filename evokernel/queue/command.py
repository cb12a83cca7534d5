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


def session_limits(before: StoreFacts, limits: SliceLimits) -> SessionLimits:
    """Return the limits of a session's command."""
    seconds = limits.seconds - min(CLOSING_S, 0.4 * limits.seconds)
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

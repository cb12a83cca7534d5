"""The command of a session, with its share of the limits of a night."""

import math
import os
import sys
from dataclasses import dataclass, replace

from evokernel.config.model_choice import VARIABLE
from evokernel.config.run import RunConfig
from evokernel.queue.records import QueueEntry, SliceLimits, StoreFacts

EVOKERNEL = (sys.executable, "-m", "evokernel")
"""The command line, in this interpreter."""
CLOSING_S = 180.0
"""Time of a slice that is kept for the start and the final measurements of its session, in s, at most."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits in the command of a session, beside those of its config."""

    hours: float
    """Limit of the run's hours, over all sessions."""
    hours_shared: bool
    """The limit comes from the night; otherwise from the config."""
    dollars: float | None = None
    """Limit of the run's dollars, over all sessions; None for the config's."""
    dollars_shared: bool = False
    """As `hours_shared`."""
    all_dollars: bool = False
    """The limit is all that the night has left."""


def asks_models(config: RunConfig, before: StoreFacts) -> bool:
    """Say whether a session would ask models: those of the config, of the store, or of the environment."""
    of_environment = bool(os.environ.get(VARIABLE)) and not before.device and "models" not in config.model_fields_set
    return bool(config.models) or before.models or of_environment


def session_limits(config: RunConfig, before: StoreFacts, limits: SliceLimits) -> SessionLimits:
    """Return the limits of a session's command: the smaller ones of the config and of the slice."""
    seconds = limits.seconds - min(CLOSING_S, 0.4 * limits.seconds)
    shared, own = (before.seconds + seconds) / 3600, config.budget.hours
    hours = shared if own is None else min(own, shared)
    told = SessionLimits(float(f"{hours:.6f}"), hours_shared=own is None or shared < own)
    if limits.dollars is None:
        return told
    cap, most = config.budget.dollars, max(1e-6, before.dollars + limits.dollars)
    dollars = most if cap is None else min(cap, most)
    return replace(told, dollars=math.floor(dollars * 1e6) / 1e6, dollars_shared=cap is None or most < cap)


def command_of(entry: QueueEntry, told: SessionLimits) -> list[str]:
    """Return the command of a session."""
    settings = [*entry.settings, f"budget.hours={told.hours!r}"]
    options = [word for setting in settings for word in ("--set", setting)]
    money = [] if told.dollars is None else ["--dollars", repr(told.dollars)]
    return [*EVOKERNEL, "evolve", str(entry.config), "--store", str(entry.store), *options, *money]

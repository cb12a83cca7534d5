"""Entries of a queue, the budgets that they share, and the slices of time that they got."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class EntryState(StrEnum):
    """State of an entry; only one that is waiting gets time."""

    WAITING = "waiting"
    """It runs when it is chosen."""
    PAUSED = "paused"
    """A person keeps it back."""
    DONE = "done"
    """Its own budget, or that of its night, is used, or nothing is left to try."""
    FAILED = "failed"
    """Its config cannot be used."""
    REMOVED = "removed"
    """A person has taken it out; it is forgotten with its night."""


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """Limits that the entries of one night share; None for no limit."""

    until: float | None = None
    """Time of the clock, in s since 1970."""
    hours: float | None = None
    """Hours of sessions, from start to end of their processes."""
    gpu_hours: float | None = None
    """The same, times the GPUs that a session uses."""
    dollars: float | None = None
    """Money for models."""


@dataclass(frozen=True, slots=True)
class QueueNight:
    """Entries that were added together, with one budget."""

    id: int
    added: float
    """In s since 1970."""
    budget: SharedBudget
    ended: str = ""
    """Reason why none of its entries runs any more; empty while some may."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One search in a queue."""

    id: int
    night: int
    """Number of its night."""
    config: Path
    """Absolute."""
    store: Path
    """Absolute."""
    settings: tuple[str, ...]
    """Settings in place of the config's, each KEY=VALUE."""
    state: EntryState
    reason: str
    """Reason for the state, or the last trouble; may be empty."""
    faults: int
    """Slices in a row that ended by a fault or without a result."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts of a store before or after a slice. The defaults are those of a store that is not there."""

    seconds: float = 0.0
    """The length of all sessions."""
    dollars: float = 0.0
    """Cost of models."""
    results: int = 0
    """Steps that ended."""
    log_speedup: float | None = None
    """Fitness of the best kernel; None without one."""
    half_log_speedup: float | None = None
    """The same after the first half of the facts."""
    stop: str = ""
    """Reason of the last orderly end of a session."""
    device: str = ""
    """Class of devices of the run; empty where it is not known."""
    models: bool = False
    """Whether its last session had models."""
    speedup: float | None = None
    """Speed-up of the best kernel; None without one."""
    when_spent: str = ""
    """The budget's `when_spent` of its last session; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The most that one slice may use."""

    seconds: float
    """From start to end of its process."""
    dollars: float | None = None
    """For models; None for no limit but the config's."""
    gpus: int = 0
    """GPUs that it is counted with; 0 on a processor."""


@dataclass(frozen=True, slots=True)
class QueueSlice:
    """A slice that has begun and has no end in the file yet."""

    id: int
    entry: int
    """Number of its entry."""
    limits: SliceLimits
    seconds: float
    """Its length as it was last noted."""
    process: str
    """Identity of its process; empty where it was not noted."""
    before: StoreFacts
    """The store at its start: seconds, dollars, results and fitness."""


@dataclass(frozen=True, slots=True)
class SharedUsage:
    """Use of a shared budget; an open slice counts with the most it may use."""

    seconds: float = 0.0
    gpu_seconds: float = 0.0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class EntryUsage:
    """Resources that one entry has used, and the gains that it had."""

    seconds: float
    dollars: float
    gains: tuple[tuple[float, float], ...]
    """Of each slice with a result, the newest first: (hours, gain in the logarithm of the speed-up)."""

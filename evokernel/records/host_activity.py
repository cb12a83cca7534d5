"""Activity of the hosts of a cluster, for people who watch a search."""

from dataclasses import dataclass
from enum import StrEnum


class HostState(StrEnum):
    """State of a host of a cluster."""

    WAITING = "waiting"
    """No node has room for it yet."""
    OPENING = "opening"
    """It starts its judge."""
    READY = "ready"
    """It judges."""
    LOST = "lost"
    """It or its node died; it starts again where there is room."""
    LEFT_OUT = "left out"
    """It is not like the others, and the search goes on without it."""


@dataclass(frozen=True, slots=True)
class HostActivity:
    """A host of a cluster at a moment."""

    node: str
    """Name of its machine; empty before it has started."""
    device: str
    """Model and id of its GPU, or the model of its processor; empty before it has started."""
    state: HostState
    queue: int
    """Candidates that it has now."""
    judged: int
    """Verdicts of this session."""
    per_minute: int
    """Verdicts of the last minute."""
    failures: int
    """Failures of this session: losses, and faults of the harness."""
    last_failure: str
    """The newest of them in words; empty for none."""
    failed_at: float | None
    """When it came, in s since 1970; None for none."""

"""Progress of a run."""

from dataclasses import dataclass

NOTHING_LEFT = "every operator has tried everything it can"
"""The reason for an end where no operator has an idea left."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run over all its sessions, by which stoppers decide."""

    evaluations: int
    """Candidates judged."""
    seconds: float
    """Time of all sessions, in s."""
    cost_usd: float
    """Cost of models, in dollars."""
    since_improvement: int
    """Evaluations since the last better kernel."""
    best_speedup: float
    """Speed-up of the leader over the fastest baselines; 0 before the first."""
    roofline_share: float | None
    """Floor time / time of the leader, 0 to 1; None where it is not known."""
    tokens: int = 0
    """Tokens of prompts and replies."""
    calls: int = 0
    """Calls of models."""

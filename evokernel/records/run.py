"""Progress of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, over all its sessions; what a stopper decides on."""

    evaluations: int
    seconds: float
    cost_usd: float
    since_improvement: int
    best_speedup: float
    roofline_share: float | None
    tokens: int = 0
    calls: int = 0

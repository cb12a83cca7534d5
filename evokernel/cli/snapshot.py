"""What the live view shows at one moment: taken from the engine by the caller, drawn without knowing it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.protocols import Progress


@dataclass(frozen=True, slots=True)
class IslandState:
    """One population: occupied niches, speed-up of its best elite (None without one), results since it improved."""

    name: str
    niches: int
    best: float | None
    stale: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands. `remaining` is the share of the budget left, 0 to 1, or None where no rule knows it.

    `baselines` holds the best kernel's speed-up over each baseline by name; `correct` counts kernels that are right
    among all results; `seconds` is the time of this session alone.
    """

    progress: Progress
    remaining: float | None = None
    correct: int = 0
    over_seed: float | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    islands: tuple[IslandState, ...] = ()
    in_flight: int = 0

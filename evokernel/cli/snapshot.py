"""What the views of a running search show at one moment, and how it is taken from the engine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from archive.store import Store
from evokernel.evaluation import Evaluation
from evokernel.fitness import Elite
from evokernel.protocols import Progress, Stopper
from evokernel.report.best import verdicts_of
from evokernel.report.verdicts import over_baselines
from evokernel.state import State


class Engine(Protocol):
    """What the command line asks of a search."""

    @property
    def state(self) -> State:
        """Where the run stands and its populations; only looked at."""
        ...

    async def run(self) -> str:
        """Search until a budget is used or a stop is asked for; return the reason."""
        ...

    def stop(self, reason: str) -> None:
        """Ask nothing more; finish what is in flight."""
        ...


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

    `best` is the id of the best kernel, empty without one, `mode` how it was run, `baselines` its speed-up over each
    baseline it was paired with; `correct` counts the right kernels among all results.
    """

    progress: Progress
    remaining: float | None = None
    correct: int = 0
    best: str = ""
    mode: str = ""
    over_seed: float | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    islands: tuple[IslandState, ...] = ()


NOTHING = Snapshot(Progress(0, 0.0, 0.0, 0, 0.0, None))


class Watch:
    """Takes snapshots of an engine; changes nothing."""

    def __init__(self, engine: Engine, store: Store, stopper: Stopper) -> None:
        self._engine = engine
        self._store = store
        self._stopper = stopper
        self._search: tuple[str, Evaluation | None] = ("", None)

    def snapshot(self) -> Snapshot:
        """Return where the run stands now."""
        standing, spent = self._engine.state.standing, self._store.spent()
        best, seed = standing.best, standing.seed
        search = self._search_evaluation(best) if best else None
        progress = Progress(
            evaluations=standing.results,
            seconds=spent.seconds,
            cost_usd=spent.cost_usd,
            since_improvement=standing.since_improvement,
            best_speedup=math.exp(best.fitness.log_speedup) if best else 0.0,
            roofline_share=standing.roofline_share,
            tokens=spent.tokens,
            calls=spent.calls,
        )
        return Snapshot(
            progress=progress,
            remaining=self._stopper.remaining(progress),
            correct=standing.correct,
            best=best.candidate.id if best else "",
            mode=search.key.mode.value if search else "",
            over_seed=math.exp(best.fitness.log_speedup - seed.fitness.log_speedup) if best and seed else None,
            baselines={name: speedup.value for name, speedup in over_baselines(search).items()} if search else {},
            islands=self._islands(),
        )

    def _search_evaluation(self, best: Elite) -> Evaluation | None:
        if self._search[0] != best.candidate.id:
            self._search = (best.candidate.id, verdicts_of(self._store, best.program_hash).search)
        return self._search[1]

    def _islands(self) -> tuple[IslandState, ...]:
        return tuple(
            IslandState(
                name=island.name,
                niches=len(island.archive),
                best=max((math.exp(e.fitness.log_speedup) for e in island.archive.elites()), default=None),
                stale=island.stale,
            )
            for island in self._engine.state.archipelago.islands.values()
        )

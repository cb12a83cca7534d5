"""What the views of a running search show at one moment, and how it is taken from the engine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from archive.store import Store
from evokernel.protocols import Stopper
from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite
from evokernel.records.run import Progress
from evokernel.report.best import verdicts_of
from evokernel.report.follower import FollowedCandidate, RunFollower
from evokernel.report.verdicts import over_baselines

if TYPE_CHECKING:
    from evokernel.engine.state import SearchState  # brings the islands along, and who only watches needs none


AT_ONCE = 4000
"""Facts of earlier sessions taken in between two drawings: the search waits meanwhile, a tenth of a second."""


class EngineView(Protocol):
    """What the command line asks of a search."""

    @property
    def state(self) -> "SearchState":
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
class NewBest:
    """A new best kernel: its speed-up over the fastest baselines, `low` that of the interval, who made it, how it ran.

    `low` decides who is best.
    """

    candidate: str
    speedup: float
    low: float
    operator: str
    island: str
    rationale: str
    mode: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands. `remaining` is the share of the budget left, 0 to 1, or None where no rule knows it.

    `best` is the id of the best kernel, empty without one, `mode` how it was run, `baselines` its speed-up over each
    baseline it was paired with, `low` the low end of that over the fastest ones; `correct` counts the right kernels
    among all `results`, those that a fork brought along included, which are in no budget. `curve` holds how many
    results there were, and the speed-up of the best kernel from then on; `improvements` are the latest, newest first.
    Of a search that is followed from elsewhere, `task` is its task, `state` a word on it, and `halted` says why
    nothing goes on, where nothing does.
    """

    progress: Progress
    remaining: float | None = None
    results: int = 0
    correct: int = 0
    in_flight: int = 0
    best: str = ""
    mode: str = ""
    low: float = 0.0
    over_seed: float | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    islands: tuple[IslandState, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    improvements: tuple[NewBest, ...] = ()
    task: str = ""
    state: str = ""
    halted: str = ""


NOTHING = Snapshot(Progress(0, 0.0, 0.0, 0, 0.0, None))


class LeadingKernel:
    """What is known of the best kernel of a store beside its speed-up; asked anew when that changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[tuple[str, float], Evaluation | None] = (("", 0.0), None)

    def evaluation(self, candidate: str, program_hash: str, speedup: float) -> Evaluation | None:
        """Return the evaluation in the search that speaks for a program, or None where it has none any more."""
        if self._known[0] != (candidate, speedup):
            self._known = ((candidate, speedup), verdicts_of(self._store, program_hash).search)
        return self._known[1]


class SnapshotTaker:
    """Takes snapshots of an engine; changes nothing."""

    def __init__(self, engine: EngineView, store: Store, stopper: Stopper) -> None:
        self._engine = engine
        self._store = store
        self._stopper = stopper
        self._leading = LeadingKernel(store)
        self._follower = RunFollower(store)

    def snapshot(self) -> Snapshot:
        """Return where the run stands now."""
        standing, spent = self._engine.state.progress, self._store.spent()
        best, seed = standing.best, standing.seed
        search = self._search_evaluation(best) if best else None
        self._follower.advance(most=AT_ONCE)
        progress = Progress(
            evaluations=standing.results - standing.copied,
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
            results=standing.results,
            correct=standing.correct,
            in_flight=in_flight(self._store),
            best=best.candidate.id if best else "",
            mode=search.key.mode.value if search else "",
            low=math.exp(best.fitness.value) if best else 0.0,
            over_seed=math.exp(best.fitness.log_speedup - seed.fitness.log_speedup) if best and seed else None,
            baselines=baselines_of(search),
            islands=self._islands(),
            curve=tuple(self._follower.curve),
            improvements=improvements_of(self._follower),
        )

    def _search_evaluation(self, best: Elite) -> Evaluation | None:
        return self._leading.evaluation(best.candidate.id, best.program_hash, best.fitness.log_speedup)

    def _islands(self) -> tuple[IslandState, ...]:
        return tuple(
            IslandState(
                name=name,
                niches=len(population.elites),
                best=max((math.exp(e.fitness.log_speedup) for e in population.elites), default=None),
                stale=population.stale,
            )
            for name, population in self._engine.state.archipelago.populations.items()
        )


def baselines_of(search: Evaluation | None) -> dict[str, float]:
    """Return the speed-up over each baseline a kernel was paired with in the search."""
    return {name: speedup.value for name, speedup in over_baselines(search).items()} if search else {}


def in_flight(store: Store) -> int:
    """Return how many proposals wait for their evaluation."""
    return int(store.database.number("SELECT count(*) FROM leases"))


def improvements_of(follower: RunFollower) -> tuple[NewBest, ...]:
    """Return the latest changes of the leader, newest first."""
    return tuple(found for seen in reversed(follower.improvements) if (found := improvement_of(seen)) is not None)


def improvement_of(seen: FollowedCandidate) -> NewBest | None:
    """Return what there is to say of a result that took the lead; None for one that did not."""
    if not seen.improved or seen.speedup is None or seen.low is None:
        return None
    return NewBest(
        candidate=seen.candidate,
        speedup=seen.speedup,
        low=seen.low,
        operator=seen.operator,
        island=seen.island,
        rationale=seen.rationale,
        mode=seen.mode,
    )

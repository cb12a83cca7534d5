"""What the views of a running search show at one moment, and how it is taken from the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from archive.account import RunAccount
from archive.follower import LeadingEvaluation
from archive.queries import in_flight
from archive.store import Store
from evokernel.protocols import Stopper
from evokernel.records.leader import LeaderChange
from evokernel.records.run import Progress
from evokernel.report.verdicts import over_baselines

if TYPE_CHECKING:
    from evokernel.engine.state import SearchState  # brings the islands along, and who only watches needs none


RECENT = 8
"""Changes of the leader that a view shows."""


class EngineView(Protocol):
    """What the command line asks of a search."""

    @property
    def state(self) -> "SearchState":
        """Where the run stands and its populations; only looked at."""
        ...

    @property
    def stopper(self) -> Stopper:
        """When it is over."""
        ...

    async def run(self) -> str:
        """Search until a budget is used or a stop is asked for; return the reason."""
        ...

    def stop(self, reason: str) -> None:
        """Ask nothing more; finish what is in flight."""
        ...


@dataclass(frozen=True, slots=True)
class IslandState:
    """What the own results of one population have filled."""

    name: str
    """Of the island."""
    niches: int
    """Niches that a right result fell into."""
    best: float | None
    """The speed-up of its best result; None without one."""
    stale: int
    """Results since then."""


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
    improvements: tuple[LeaderChange, ...] = ()
    task: str = ""
    state: str = ""
    halted: str = ""


NOTHING = Snapshot(Progress(0, 0.0, 0.0, 0, 0.0, None))


class SnapshotTaker:
    """Takes snapshots of an engine; changes nothing."""

    def __init__(self, engine: EngineView, store: Store) -> None:
        self._engine = engine
        self._store = store
        self._leading = LeadingEvaluation(store)

    def snapshot(self) -> Snapshot:
        """Return where the run stands now."""
        account = self._engine.state.account
        return snapshot_of(account, self._store, self._leading, stopper=self._engine.stopper)


def snapshot_of(account: RunAccount, store: Store, leading: LeadingEvaluation, *, stopper: Stopper | None) -> Snapshot:
    """Return what there is to show of a run."""
    spent, lead, evaluation = store.spent(), account.lead, leading.of(account.lead)
    progress = account.progress(
        seconds=spent.seconds, models=spent.models, roofline_share=leading.floor_share(account.lead)
    )
    return Snapshot(
        progress=progress,
        remaining=stopper.remaining(progress) if stopper else None,
        results=account.results,
        correct=account.correct,
        in_flight=in_flight(store.database),
        best=lead.candidate if lead else "",
        mode=lead.mode.value if lead else "",
        low=lead.low if lead else 0.0,
        over_seed=account.over_seed,
        baselines={name: speedup.value for name, speedup in over_baselines(evaluation).items()} if evaluation else {},
        islands=tuple(
            IslandState(name, len(each.niches), each.best.speedup if each.best else None, each.stale)
            for name, each in account.populations.items()
        ),
        curve=tuple(account.curve),
        improvements=tuple(reversed(account.changes[-RECENT:])),
    )

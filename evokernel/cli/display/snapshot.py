"""Snapshot of a search for its views, taken from the engine or from its store."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from archive.account import RunAccount
from archive.follower import LeadingEvaluation, read_account
from archive.queries import in_flight
from archive.session_notes import read_host_activity
from archive.store import Store
from evokernel.protocols import Stopper
from evokernel.records.host_activity import HostActivity
from evokernel.records.leader import LeaderChange
from evokernel.records.run import Progress
from evokernel.report.effort import prices_known
from evokernel.report.verdicts import over_baselines

if TYPE_CHECKING:
    from evokernel.engine.search import Search  # imports the islands, which a view of a store does not need


RECENT = 8
"""Number of changes of the leader that a view shows."""


@dataclass(frozen=True, slots=True)
class IslandState:
    """Niches and best result of one island, by its own results."""

    name: str
    """Name of the island."""
    niches: int
    """Number of niches with a right result."""
    best: float | None
    """Speed-up of its best result; None without one."""
    stale: int
    """Number of results since then."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a run as a view shows it."""

    progress: Progress
    """The quantities that budgets limit."""
    remaining: float | None = None
    """Share of the budget left, 0 to 1; None where no rule knows it."""
    results: int = 0
    """Number of judged candidates; also those that a fork copied, which are in no budget."""
    correct: int = 0
    """Number of right ones among `results`."""
    in_flight: int = 0
    """Number of proposals that wait for a result; where `halted`, those left to the next session."""
    finishing: bool = False
    """True where the searching process only measures anew; False for a followed store."""
    stopping: bool = False
    """True where the searching process was told to stop; False for a followed store."""
    best: str = ""
    """Id of the best kernel; empty without one."""
    mode: str = ""
    """Mode in which the best kernel ran."""
    low: float = 0.0
    """Low end of the interval of its speed-up over the fastest baselines."""
    over_seed: float | None = None
    """Speed-up of the best kernel over the seed; None where unknown."""
    baselines: Mapping[str, float] = field(default_factory=dict)
    """Speed-up of the best kernel over each baseline it was paired with, by name."""
    islands: tuple[IslandState, ...] = ()
    """In the order of the config."""
    curve: tuple[tuple[int, float], ...] = ()
    """Number of results, and the best speed-up from that result on; ascending."""
    improvements: tuple[LeaderChange, ...] = ()
    """Latest changes of the leader, newest first."""
    hosts: tuple[HostActivity, ...] = ()
    """Those of a cluster; empty without one."""
    priced: bool = True
    """False where a cost of 0 is unknown."""
    task: str = ""
    """Task of a followed store; empty in the searching process."""
    state: str = ""
    """State of a followed store; empty in the searching process."""
    halted: str = ""
    """Reason why no search runs on a followed store; empty where one does."""


NOTHING = Snapshot(Progress(0, 0.0, 0.0, 0, 0.0, None))


class SnapshotTaker:
    """Taker of snapshots of an engine; changes nothing."""

    def __init__(self, engine: "Search", store: Store) -> None:
        self._engine = engine
        self._store = store
        self._leading = LeadingEvaluation(store)
        self._before = read_account(store)
        """The account as earlier sessions left it, until the engine has its own."""

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the run."""
        account, engine = self._engine.state.account, self._engine
        account = account if account.results else self._before
        taken = snapshot_of(account, self._store, self._leading, stopper=engine.stopper)
        return replace(taken, finishing=engine.finishing, stopping=bool(engine.stop_asked))


def snapshot_of(account: RunAccount, store: Store, leading: LeadingEvaluation, *, stopper: Stopper | None) -> Snapshot:
    """Return a snapshot of a run from its account and its store."""
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
        hosts=read_host_activity(store),
        priced=prices_known(store.meta("config") or ""),
        improvements=tuple(reversed(account.changes[-RECENT:])),
    )

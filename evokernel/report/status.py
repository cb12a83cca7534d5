"""Status of a run: identity, cost, and results of its operators, models and islands."""

import os
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from archive.follower import RunFollower, unfinished_lead
from archive.hidden_checks import StoredCheck
from archive.hints import Hint, hints_in_force
from archive.journal import ConfigEntry
from archive.session_notes import read_diversity, read_host_activity
from archive.sessions import SpentBudget
from archive.store import Store
from archive.views.activity import last_session, last_stop
from archive.views.candidate_tables import IslandRow, island_rows, results_by_mode
from archive.views.effort import ExpectedGain, PairEffort, efforts_by_pair, predicted_gains
from archive.views.setting_changes import edits_of
from evokernel.records.diversity import IslandDiversity
from evokernel.records.evaluation import Mode
from evokernel.records.host_activity import HostActivity
from evokernel.records.leader import LeaderChange
from evokernel.report.best import BestKernel, find_best
from evokernel.report.effort import EffortRow, model_rows, operator_rows, prices_known
from evokernel.report.workload_front import WorkloadFront, workload_front

RECENT = 8
SILENT_S = 30.0  # an engine writes a heartbeat every second, unless the machine is very busy
LATE_S = 3.0
"""After this long without a heartbeat the engine's process is looked for."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Identity of the run in a store; empty texts where no session has begun."""

    path: Path
    """The store."""
    run_id: str
    created: str
    """Time in s since the epoch, as text."""
    forked_from: str
    """Run that it was forked from; empty for none."""
    task: str
    language: str
    seed: int
    """Seed of the random streams."""
    device: str
    environment: str
    sandbox: str
    """Description by the judge."""
    config: str
    """Resolved, as YAML."""

    @property
    def title(self) -> str:
        """The name of the task, or in words why there is none yet."""
        new = f"fork of run {self.forked_from}, not begun" if self.forked_from else "a run that has not begun"
        return task_name(self.task) or new


class RunState(StrEnum):
    """State of the search on a store."""

    NEW = "new"
    """No session has begun."""
    RUNNING = "running"
    """A session writes heartbeats."""
    STOPPED = "stopped"
    """The last session ended in order."""
    KILLED = "killed"
    """The last session neither ended nor writes heartbeats."""


@dataclass(frozen=True, slots=True, repr=False)
class RunStatus:
    """A run at a glance; its repr is one line, since all fields fill pages."""

    run: RunFacts
    state: RunState
    mode: Mode | None
    """The most frequent mode of results; None without results."""
    spent: SpentBudget
    results: int
    """Number of judged proposals, those that a fork copied included; a candidate proposed twice counts twice."""
    correct: int
    """Number of right ones among `results`."""
    by_status: dict[str, int]
    """Number of results by status, most frequent first."""
    by_mode: dict[str, int]
    """Number of results by mode, most frequent first."""
    in_flight: int
    """Number of proposals that wait for a result; 0 where nothing runs."""
    left: int
    """Number of proposals that a session left behind, which the next one judges first; 0 while one runs."""
    insights: int
    """Number of insights that were kept."""
    hints: tuple[Hint, ...]
    """Those in force."""
    last_stop: str
    """Reason why a session last ended in order; empty where none has."""
    best: BestKernel | None
    operators: tuple[EffortRow, ...]
    models: tuple[EffortRow, ...]
    pairs: tuple[PairEffort, ...]
    """Effort of each operator with each model; empty where no model was asked."""
    predicted: ExpectedGain
    """Gains that models predicted, and what came of them."""
    islands: tuple[IslandRow, ...]
    improvements: tuple[LeaderChange, ...]
    """Latest changes of the leader, oldest first."""
    checks: tuple[StoredCheck, ...] = ()
    """Hidden checks that the run has added, oldest first."""
    edits: tuple[ConfigEntry, ...] = ()
    """Changes of the config between sessions."""
    front: WorkloadFront | None = None
    """Champions and Pareto front over the workloads; None without two workloads."""
    diversity: Mapping[str, IslandDiversity] = field(default_factory=dict)
    """By island, as a session last measured it."""
    hosts: tuple[HostActivity, ...] = ()
    """Those of a cluster, as the last session saw them; empty where it had none."""

    def __repr__(self) -> str:
        best = f"best {self.best.speedup.value:.2f}x" if self.best else "no right kernel yet"
        return (
            f"RunStatus({self.run.title}: {self.state.value}, {self.results} judged, {self.correct} right, {best}; "
            f"fields: {', '.join(each.name for each in fields(self))})"
        )

    @property
    def priced(self) -> bool:
        """True where a cost of 0 is 0, as `prices_known` says."""
        return prices_known(self.run.config)


def task_name(spec: str) -> str:
    """Return the name of a task: where the run has a file, its name without `_task.py`."""
    return Path(spec).name.removesuffix(".py").removesuffix("_task")


def run_facts(store: Store) -> RunFacts:
    """Return the identity of the run in a store."""
    identity = store.identity()
    return RunFacts(
        path=store.database.path,
        run_id=store.meta("run_id") or "",
        created=store.meta("created") or "",
        forked_from=store.meta("forked_from") or "",
        task=identity.task if identity else "",
        language=identity.language if identity else "",
        seed=identity.seed if identity else 0,
        device=identity.device if identity else "",
        environment=identity.environment if identity else "",
        sandbox=store.meta("sandbox") or "",
        config=store.meta("config") or "",
    )


def read_status(store: Store, follower: RunFollower | None = None) -> RunStatus:
    """Return the status of a run; `follower` is brought up to date, and spares the facts that it has read."""
    with store.database.snapshot():
        return _status(store, follower or RunFollower(store))


def _status(store: Store, follower: RunFollower) -> RunStatus:
    follower.advance()
    counts, account = store.counts(), follower.account
    by_mode, models = results_by_mode(store), model_rows(store)
    unfinished = unfinished_lead(store, account)
    state = run_state(store)
    runs = state is RunState.RUNNING
    return RunStatus(
        run=run_facts(store),
        state=state,
        mode=next(iter(by_mode), None),
        spent=store.spent(),
        results=account.results,
        correct=account.correct,
        by_status=counts.by_status,
        by_mode={mode.value: count for mode, count in by_mode.items()},
        in_flight=counts.in_flight if runs else 0,
        left=0 if runs else counts.in_flight,
        insights=counts.insights,
        hints=hints_in_force(store),
        checks=store.added_checks(),
        last_stop=last_stop(store),
        best=find_best(store),
        operators=operator_rows(store, Counter(change.operator for change in account.changes)),
        models=models,
        predicted=predicted_gains(store) if models else ExpectedGain(),
        pairs=tuple(efforts_by_pair(store)) if models else (),
        islands=island_rows(store),
        improvements=(*account.changes, *([unfinished] if unfinished else []))[-RECENT:],
        edits=edits_of(store),
        front=workload_front(store),
        diversity=read_diversity(store),
        hosts=read_host_activity(store),
    )


def run_state(store: Store, *, heard: bool = False) -> RunState:
    """Return the state of the search on a store.

    `heard` says that its heartbeat was seen to change lately. That counts more than its age: the clock of another
    machine may be wrong.
    """
    session = last_session(store)
    if session is None:
        return RunState.NEW
    if session.ended:
        return RunState.STOPPED
    # A clock that was set back shows a dead engine's last heartbeat in the future; a living engine writes another.
    silent_s = abs(time.time() - session.last_seen)
    if silent_s > LATE_S and session.host == socket.gethostname() and _has_gone(session.pid):
        return RunState.KILLED
    return RunState.RUNNING if heard or silent_s < SILENT_S else RunState.KILLED


def _has_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or no process id at all
        return False
    return False

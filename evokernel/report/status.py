"""Where a run stands: what it is, what it has used, what its operators, models and islands gave."""

import os
import socket
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from archive.activity import last_session, last_stop
from archive.candidate_tables import IslandRow, island_rows, results_by_mode
from archive.follower import read_account
from archive.hints import Hint, hints_in_force
from archive.sessions import SpentBudget
from archive.setting_changes import SettingChange, edits_of
from archive.store import Store
from evokernel.records.evaluation import Mode
from evokernel.records.leader import LeaderChange
from evokernel.report.best import BestKernel, find_best
from evokernel.report.effort import ModelRow, OperatorRow, model_rows, operator_rows

RECENT = 8
SILENT_S = 30.0  # an engine gives a sign of life every second, unless the machine is very busy
LATE_S = 3.0
"""After this long without a sign of life it is looked whether the engine's process is still there."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a store is the record of; empty texts where no session has begun. `config` is the resolved YAML."""

    path: Path
    run_id: str
    created: str
    forked_from: str
    task: str
    language: str
    seed: int
    device: str
    environment: str
    sandbox: str
    config: str


class RunState(StrEnum):
    """Whether a search is at work on a store. `killed`: its last session neither ended nor has been heard of."""

    NEW = "new"
    RUNNING = "running"
    STOPPED = "stopped"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at a glance. `last_stop` is why a session last ended in an orderly way, empty where none has.

    `by_mode` counts the judged results by how they were run, `mode` is the most frequent; None where there are none.
    `insights` counts the words of models that were kept, `hints` are those of people that are in force, `edits` what
    was changed in the config between sessions.
    """

    run: RunFacts
    state: RunState
    mode: Mode | None
    spent: SpentBudget
    results: int
    correct: int
    by_status: dict[str, int]
    by_mode: dict[str, int]
    in_flight: int
    insights: int
    hints: tuple[Hint, ...]
    last_stop: str
    best: BestKernel | None
    operators: tuple[OperatorRow, ...]
    models: tuple[ModelRow, ...]
    islands: tuple[IslandRow, ...]
    improvements: tuple[LeaderChange, ...]
    edits: tuple[SettingChange, ...] = ()


def run_facts(store: Store) -> RunFacts:
    """Return what the store is the record of."""
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


def read_status(store: Store) -> RunStatus:
    """Return how a run stands."""
    with store.database.snapshot():
        return _status(store)


def _status(store: Store) -> RunStatus:
    counts, account = store.counts(), read_account(store)
    by_mode = results_by_mode(store)
    return RunStatus(
        run=run_facts(store),
        state=run_state(store),
        mode=next(iter(by_mode), None),
        spent=store.spent(),
        results=account.results,
        correct=account.correct,
        by_status=counts.by_status,
        by_mode={mode.value: count for mode, count in by_mode.items()},
        in_flight=counts.in_flight,
        insights=sum(counts.insights.values()),
        hints=hints_in_force(store),
        last_stop=last_stop(store),
        best=find_best(store),
        operators=operator_rows(store, Counter(change.operator for change in account.changes)),
        models=model_rows(store),
        islands=island_rows(store),
        improvements=tuple(account.changes[-RECENT:]),
        edits=edits_of(store),
    )


def run_state(store: Store, *, heard: bool = False) -> RunState:
    """Return whether a search is at work on a store.

    `heard` says that its sign of life was seen to change of late, which counts for more than how old it looks: the
    clock of another machine may be wrong.
    """
    session = last_session(store)
    if session is None:
        return RunState.NEW
    if session.ended:
        return RunState.STOPPED
    # A clock that was set back shows a dead engine's last sign of life in the future; a living one gives another.
    silent_s = abs(time.time() - session.last_seen)
    if silent_s > LATE_S and session.host == socket.gethostname() and _has_gone(session.pid):
        return RunState.KILLED
    return RunState.RUNNING if heard or silent_s < SILENT_S else RunState.KILLED


def _has_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, or no number of a process at all
        return False
    return False

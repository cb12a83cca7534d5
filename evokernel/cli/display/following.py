"""Reading of a store while another process writes it; survives a file that moves, breaks or disappears."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from archive.file.database import refuse_unfit
from archive.follower import FollowedResult, LeadingEvaluation, RunFollower
from archive.store import Store
from archive.views.activity import last_fact_at, last_heard, last_stop
from evokernel.cli.display.snapshot import NOTHING, Snapshot, snapshot_of
from evokernel.config.run import BudgetConfig
from evokernel.engine.stoppers import stopper_from
from evokernel.errors import ConfigError, StoreError
from evokernel.protocols import Stopper
from evokernel.records.events import Notice
from evokernel.report.status import SILENT_S, RunState, run_state

RETRY_S = 2.0
"""Pause before an unreadable file is opened again; opening reads all of it."""
MISSING, UNREADABLE = "missing", "unreadable"
KILLED_TEXT = "the search was killed; `evokernel evolve` goes on with it"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StoreLook:
    """State of a followed store at one moment."""

    state: str
    """A `RunState`, or `missing` or `unreadable` for the file."""
    snapshot: Snapshot
    """State of the run; the last known one where the file cannot be read."""
    seen: tuple[FollowedResult, ...] = ()
    """Results since the look before, oldest first."""
    notes: tuple[Notice, ...] = ()
    """Messages for the user since the look before."""
    last_at: float = 0.0
    """Time of the newest entry, by the clock of the searching machine, in s since the epoch."""
    old: bool = False
    """True where `seen` came before anybody watched."""


@dataclass(frozen=True, slots=True)
class _Files:
    """Identity of a store file, and when it was last written."""

    identity: tuple[int, int]
    written: tuple[tuple[int, int] | None, tuple[int, int] | None]


class _Opened:
    """An open store and what has been read from it."""

    def __init__(self, store: Store, files: _Files) -> None:
        self.store = store
        self.files = files
        self.follower = RunFollower(store)
        self.leading = LeadingEvaluation(store)
        self._config: str | None = None
        self._stopper: Stopper | None = None

    def snapshot(self, state: RunState) -> Snapshot:
        """Return the state of the run, as a view in the searching process shows it."""
        account, identity = self.follower.account, self.store.identity()
        return replace(
            snapshot_of(account, self.store, self.leading, stopper=self._rules()),
            task=identity.task if identity else "",
            state=state.value,
            halted=halted(state, last_stop(self.store)),
        )

    def _rules(self) -> Stopper | None:
        """Return the stopper of the latest session; without plug-ins; None where its budget cannot be read."""
        text = self.store.meta("config")
        if text != self._config:
            self._config = text
            budget = (yaml.safe_load(text or "") or {}).get("budget")
            try:  # who only looks runs no code that a store names
                given = BudgetConfig.model_validate({**budget, "stoppers": ()}) if budget else None
                self._stopper = stopper_from(given) if given else None
            except (ValueError, ConfigError):
                self._stopper = None
        return self._stopper


class StoreFollower:
    """Repeated reading of one store; once it has begun, nothing that happens to the file ends it.

    Args:
        path: the store, which need not exist yet.
        clock: monotonic, in s.
    """

    def __init__(self, path: Path, *, clock: Clock = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._opened: _Opened | None = None
        self._state = ""
        self._retry_at = 0.0
        self._problem = ""
        self._heard: tuple[float, float] | None = None
        """Newest heartbeat by the clock of the search, and when it was first seen by ours; in s."""
        self._snapshot = NOTHING
        self._run, self._seq = "", 0
        """Id and seq that were read last: reopening the same run reports no result twice."""

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.store.close()
            self._opened = None

    def first_look(self) -> StoreLook:
        """Look when nothing has been read yet. Raises `StoreError` for what cannot be followed."""
        self.close()
        refuse_unfit(self.path)
        files = _files(self.path)
        if files is None:
            return self._store_look(MISSING, [])
        self._opened = _Opened(Store.open(self.path, write=False), files)
        return self._read(self._opened, [])

    def look(self) -> StoreLook:
        """Return the current state of the store."""
        notes: list[Notice] = []
        try:
            files = _files(self.path)
            self._close_replaced(files, notes)
            if files is None:
                return self._store_look(MISSING, notes)
            if self._opened is None:
                if self._clock() < self._retry_at:
                    return self._store_look(self._state or MISSING, notes)
                self._opened = _Opened(Store.open(self.path, write=False), files)
            return self._read(self._opened, notes)
        except StoreError as error:
            return self._unreadable(error, notes)

    def _close_replaced(self, files: _Files | None, notes: list[Notice]) -> None:
        """Close a file that was replaced at its path, or a private copy that is out of date."""
        opened = self._opened
        if opened is None:
            return
        replaced = files is None or files.identity != opened.files.identity
        if replaced:
            notes.append(Notice(f"{self.path} was moved or replaced", warning=True))
        if replaced or (not opened.store.database.live and files != opened.files):
            self.close()
            self._heard, self._snapshot = None, NOTHING

    def _read(self, opened: _Opened, notes: list[Notice]) -> StoreLook:
        with opened.store.database.snapshot():
            seen = opened.follower.advance()
            last_at = self._note_heartbeat(opened.store)
            recently = self._heard is not None and self._clock() - self._heard[1] < SILENT_S
            state = run_state(opened.store, heard=recently)
            snapshot = opened.snapshot(state)
            run = opened.store.meta("run_id") or ""
        old = run != self._run and self._state not in (MISSING, RunState.NEW)
        after, self._seq = self._seq if run == self._run else 0, opened.follower.seq
        self._run, self._problem = run, ""
        look = self._store_look(state.value, notes, snapshot)
        return replace(look, seen=tuple(each for each in seen if each.result.seq > after), last_at=last_at, old=old)

    def _note_heartbeat(self, store: Store) -> float:
        """Note the newest heartbeat; return when anything was last written."""
        found = last_heard(store)
        if self._heard is None or found != self._heard[0]:
            # A heartbeat that is seen for the first time may be old.
            self._heard = (found, -SILENT_S * 2 if self._heard is None else self._clock())
        return max(found, last_fact_at(store))

    def _unreadable(self, error: StoreError, notes: list[Notice]) -> StoreLook:
        """Note an unreadable file; report it only the second time, since a store may just be being created."""
        self.close()
        self._heard = None
        before, self._problem = self._problem, str(error)
        if before != self._problem:
            return self._store_look(self._state or MISSING, notes)
        self._retry_at = self._clock() + RETRY_S
        return self._store_look(UNREADABLE, notes)

    def _store_look(self, state: str, notes: list[Notice], snapshot: Snapshot | None = None) -> StoreLook:
        words = {
            MISSING: f"there is no store at {self.path} yet; waiting for one",
            UNREADABLE: f"{self._problem}; trying again",
        }.get(state)
        snapshot = snapshot or (replace(self._snapshot, state=state, halted=words) if words else self._snapshot)
        before, self._state, self._snapshot = self._state, state, snapshot
        if before not in ("", state):
            said = "the search is at work" if state == RunState.RUNNING else snapshot.halted
            notes.append(Notice(said, warning=state in (UNREADABLE, RunState.KILLED)))
        return StoreLook(state, snapshot, notes=tuple(notes))


def halted(state: RunState, stopped: str) -> str:
    """Return in words why a search does not go on; nothing where it does."""
    if state is RunState.RUNNING:
        return ""
    return {
        RunState.NEW: "no search has begun yet",
        RunState.STOPPED: f"the search has stopped: {stopped}",
        RunState.KILLED: KILLED_TEXT,
    }[state]


def _files(path: Path) -> _Files | None:
    """Return identity and write times of a store's files, or None where there is no store, or an empty file."""
    found, log = _stat(path), _stat(path.with_name(f"{path.name}-wal"))
    if found is None or not (found.st_size or (log and log.st_size)):
        return None
    written = tuple(None if each is None else (each.st_mtime_ns, each.st_size) for each in (found, log))
    return _Files((found.st_dev, found.st_ino), (written[0], written[1]))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot look at {path}: {error.strerror}") from error

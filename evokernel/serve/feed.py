"""What a store says now, read by one thread for everybody who looks, at little cost to the search that writes it."""

import gzip
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archive.activity import mark, seconds_used
from archive.store import Store
from evokernel.errors import StoreError
from evokernel.report.html import data_text
from evokernel.report.page_data import report_document
from evokernel.report.safe_text import one_line
from evokernel.report.status import run_state

logger = logging.getLogger(__name__)

PROBLEM = 400
_JOIN_S = 5.0
_COMPRESSION = 3  # a tenth of the text; more takes longer than the text is worth on its way

Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PollingLimits:
    """How often a feed looks, how often it makes a document, and how much of one core that may take."""

    poll_s: float = 0.5
    least_s: float = 1.0
    share: float = 0.05

    def pause_s(self, worked_s: float) -> float:
        """Return how long to wait before doing again what has taken so much of a core."""
        return max(self.least_s, worked_s * (1 / self.share - 1))


PACE = PollingLimits()


@dataclass(frozen=True, slots=True)
class FeedState:
    """What there is to say at once: the newest document, the state of the search, its time in s, or what is wrong."""

    version: str = ""
    state: str = ""
    seconds: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PublishedPage:
    """One document of a store as compressed JSON, and what an index shows of it."""

    version: str
    body: bytes
    summary: Mapping[str, Any]


class Feed:
    """Follows one store: one that does not exist yet, is written by another process, or is moved and made anew.

    A thread of its own reads the store, for nothing else may; it looks twice a second while somebody watches, and not
    at all while nobody does. `changed` is notified whenever `pulse` or `edition` has changed.
    """

    def __init__(self, path: Path, *, changed: threading.Condition, pace: PollingLimits = PACE) -> None:
        self.path = path
        self._changed = changed
        self._pulse = FeedState()
        self._edition: PublishedPage | None = None
        self._watchers = 0
        self._unmade = ""
        self._woken = False
        self._closed = False
        self._pace = pace
        self._reader = _Reader(path, pace)
        self._thread = threading.Thread(target=self._run, name=f"feed of {path.name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading; a document that is being made is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._reader.interrupt()
        self._thread.join(_JOIN_S)

    @property
    def pulse(self) -> FeedState:
        """What there is to say at once."""
        return self._pulse

    @property
    def edition(self) -> PublishedPage | None:
        """The newest document; None until the first is made."""
        return self._edition

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep what is said up to date while the block runs."""
        with self._changed:
            self._watchers += 1
            self._woken = True
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._watchers -= 1

    def _run(self) -> None:
        self._look()  # what the first reader will ask for
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closed or self._woken, self._pace.poll_s if self._watchers else None
                )
                self._woken = False
                if self._closed:
                    break
            self._look()
        self._reader.shut()

    def _look(self) -> None:
        try:
            found = self._reader.glance()
        except Exception as error:  # noqa: BLE001  the edge of the thread: the page says it, and later it may go
            self._reader.shut()
            self._say(replace(self._pulse, problem=self._said(error)))
            return
        if found is None:
            return
        mark, state, seconds = found
        self._say(FeedState(self._pulse.version, state, seconds, self._unmade))
        try:
            edition = self._reader.edition_if_due((mark, state))
        except Exception as error:  # noqa: BLE001  as above; said until a document can be made again
            self._unmade = self._said(error)
            self._say(replace(self._pulse, problem=self._unmade))
            return
        if edition is not None:
            self._edition, self._unmade = edition, ""
            self._say(replace(self._pulse, version=edition.version, problem=""))

    def _said(self, error: Exception) -> str:
        if isinstance(error, StoreError):
            return one_line(str(error), width=PROBLEM)
        said = f"the report of {self.path} cannot be made ({type(error).__name__}); `evokernel verify` checks it"
        if self._pulse.problem != one_line(said, width=PROBLEM):
            logger.error("%s", said, exc_info=error)
        return one_line(said, width=PROBLEM)

    def _say(self, pulse: FeedState) -> None:
        with self._changed:
            if pulse != self._pulse:
                self._pulse = pulse
                self._changed.notify_all()


class _Reader:
    """The open store of a feed, and when what costs time is due again."""

    def __init__(self, path: Path, pace: PollingLimits) -> None:
        self._path = path
        self._pace = pace
        self._store: Store | None = None
        self._file: object = None
        self._sizes: tuple[object, ...] = ()
        self._open_at = 0.0
        self._built: tuple[Mark, str] | None = None
        self._build_at = 0.0
        self._boot, self._number = secrets.token_hex(4), 0

    def glance(self) -> tuple[Mark, str, int] | None:
        """Return what the documents depend on, the state and the time in s; None while opening it is not due again.

        Raises:
            StoreError: it is not there, or cannot be read.
        """
        store = self._current()
        if store is None:
            return None
        return mark(store), run_state(store).value, int(seconds_used(store))

    def edition_if_due(self, now: tuple[Mark, str]) -> PublishedPage | None:
        """Return a new document where there is anything new in it and its time has come.

        It has come when making documents takes no more than its share; at once when a search begins or ends.
        """
        if self._store is None or now == self._built:
            return None
        turned = self._built is not None and self._built[1] != now[1]
        if not turned and time.monotonic() < self._build_at:
            return None
        worked = time.thread_time()
        try:
            document = report_document(self._store)
            body = gzip.compress(data_text(document).encode(), _COMPRESSION, mtime=0)
        finally:  # one that cannot be made costs as much
            self._build_at = time.monotonic() + self._pace.pause_s(time.thread_time() - worked)
        self._built = now
        self._number += 1
        return PublishedPage(f"{self._boot}-{self._number}", body, _summary(document))

    def interrupt(self) -> None:
        """End the query that runs now, from another thread."""
        store = self._store
        if store is not None:
            with suppress(sqlite3.Error):
                store.database.connection.interrupt()

    def shut(self) -> None:
        """Close the store; it is opened again when that is due."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(StoreError):
                store.close()

    def _current(self) -> Store | None:
        found, sizes = _identity(self._path), _sizes(self._path)
        if found != self._file:
            self.shut()
            self._open_at = self._build_at = 0.0
        elif self._store is not None and (self._store.database.live or sizes == self._sizes):
            return self._store
        if time.monotonic() < self._open_at:
            return None
        worked = time.thread_time()
        self.shut()
        self._file, self._sizes, self._built = found, sizes, None
        try:
            self._store = Store.open(self._path, write=False)
        finally:  # opening looks the whole file over, which takes as long as it is large
            self._open_at = time.monotonic() + self._pace.pause_s(time.thread_time() - worked)
        return self._store


def _identity(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sizes(path: Path) -> tuple[object, ...]:
    sizes: list[object] = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = each.stat()
            sizes.append((found.st_size, found.st_mtime_ns))
        except OSError:
            sizes.append(None)
    return tuple(sizes)


def _summary(document: Mapping[str, Any]) -> dict[str, Any]:
    status = document["status"]
    best = status["best"]
    return {
        "task": status["task"],
        "results": status["results"],
        "cost_usd": status["cost_usd"],
        "speedup": best["speedup"] if best else None,
    }

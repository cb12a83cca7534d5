"""Feed of one store: read by one thread for all clients, at little cost to the search that writes it."""

import gzip
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archive.store import Store
from archive.views.activity import mark, seconds_used
from evokernel import __version__
from evokernel.errors import StoreError
from evokernel.report.html import data_text
from evokernel.report.page_data import report_document
from evokernel.report.safe_text import one_line
from evokernel.report.status import run_state

logger = logging.getLogger(__name__)

PROBLEM = 400
_JOIN_S = 5.0
_COMPRESSION = 3  # a tenth of the size; a higher level costs more time than it saves

Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PollingLimits:
    """Rates at which a feed reads its store."""

    poll_s: float = 0.5
    """Pause between looks."""
    least_s: float = 1.0
    """Least pause between two documents."""
    share: float = 0.05
    """Share of one core for documents, 0 to 1."""

    def pause_s(self, worked_s: float) -> float:
        """Return the pause after work that took `worked_s` of a core."""
        return max(self.least_s, worked_s * (1 / self.share - 1))


PACE = PollingLimits()


@dataclass(frozen=True, slots=True)
class FeedState:
    """State of a followed store."""

    version: str = ""
    """Of the newest document; empty before the first."""
    state: str = ""
    """A `RunState`; empty before the first look."""
    seconds: int = 0
    """Search time of all sessions, in s."""
    problem: str = ""
    """In words; empty for none."""


@dataclass(frozen=True, slots=True)
class PublishedPage:
    """One document of a store."""

    version: str
    body: bytes
    """JSON, gzip-compressed."""
    summary: Mapping[str, Any]
    """Fields that an index of stores shows."""


class Feed:
    """Follower of one store, which may not exist yet, be written by another process, or be replaced.

    Only its own thread reads the store: twice a second while a client watches, else not at all. `changed` is notified
    whenever `state` or `page` has changed.
    """

    def __init__(self, path: Path, *, changed: threading.Condition, pace: PollingLimits = PACE) -> None:
        self.path = path
        self._changed = changed
        self._state = FeedState()
        self._page: PublishedPage | None = None
        self._watchers = 0
        self._questions: list[tuple[Callable[[Store], Any], Future[Any]]] = []
        self._page_problem = ""
        self._woken = False
        self._closed = False
        self._pace = pace
        self._reader = _Reader(path, pace)
        self._thread = threading.Thread(target=self._run, name=f"feed of {path.name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading; interrupt a document that is being made."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._reader.interrupt()
        self._thread.join(_JOIN_S)

    @property
    def state(self) -> FeedState:
        """State of store and search."""
        return self._state

    @property
    def page(self) -> PublishedPage | None:
        """The newest document; None until the first is made."""
        return self._page

    def ask(self, question: Callable[[Store], bytes]) -> Future[bytes | None]:
        """Return the coming answer of the feed's thread to a question; None where the store has none."""
        answer: Future[bytes | None] = Future()
        with self._changed:
            if self._closed:
                answer.set_result(None)
            else:
                self._questions.append((question, answer))
            self._changed.notify_all()
        return answer

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep `state` and `page` up to date while the block runs."""
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
        self._look()  # before the first client asks
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closed or self._woken or self._questions,
                    self._pace.poll_s if self._watchers else None,
                )
                look = self._woken or self._watchers > 0
                self._woken = False
                questions, self._questions = self._questions, []
                closed = self._closed
            for question, answer in questions:
                self._answer(question, answer)
            if closed:
                break
            if look:
                self._look()
        self._reader.close()

    def _answer(self, question: Callable[[Store], bytes], answer: Future[bytes | None]) -> None:
        if not answer.set_running_or_notify_cancel():
            return  # who asked has gone
        try:
            store = self._reader.store()
            answer.set_result(None if store is None else question(store))
        except StoreError:  # unknown, damaged or gone: there is nothing to give
            answer.set_result(None)
        except Exception as error:  # noqa: BLE001  the edge of the thread, as in `_look`
            self._describe(error)
            answer.set_result(None)

    def _look(self) -> None:
        try:
            found = self._reader.read_state()
        except Exception as error:  # noqa: BLE001  the edge of the thread: the page shows it; the next look may succeed
            self._reader.close()
            self._publish(replace(self._state, problem=self._describe(error)))
            return
        if found is None:
            return
        mark, state, seconds = found
        self._publish(FeedState(self._state.version, state, seconds, self._page_problem))
        try:
            page = self._reader.page_if_due((mark, state))
        except Exception as error:  # noqa: BLE001  as above; shown until a document can be made again
            self._page_problem = self._describe(error)
            self._publish(replace(self._state, problem=self._page_problem))
            return
        if page is not None:
            self._page, self._page_problem = page, ""
            self._publish(replace(self._state, version=page.version, problem=""))

    def _describe(self, error: Exception) -> str:
        if isinstance(error, StoreError):
            return one_line(str(error), width=PROBLEM)
        said = f"the report of {self.path} cannot be made ({type(error).__name__}); `evokernel verify` checks it"
        if self._state.problem != one_line(said, width=PROBLEM):
            logger.error("%s", said, exc_info=error)
        return one_line(said, width=PROBLEM)

    def _publish(self, state: FeedState) -> None:
        with self._changed:
            if state != self._state:
                self._state = state
                self._changed.notify_all()


class _Reader:
    """The open store of a feed, and the times at which costly work is due."""

    def __init__(self, path: Path, pace: PollingLimits) -> None:
        self._path = path
        self._pace = pace
        self._store: Store | None = None
        self._file: object = None
        self._sizes: tuple[object, ...] = ()
        self._open_at = 0.0
        self._built: tuple[Mark, str] | None = None
        self._build_at = 0.0
        self._feed_id, self._number = secrets.token_hex(4), 0

    def read_state(self) -> tuple[Mark, str, int] | None:
        """Return the mark of the store, the state and the time in s; None while opening is not due.

        Raises `StoreError` if it does not exist, or cannot be read.
        """
        store = self.store()
        if store is None:
            return None
        return mark(store), run_state(store).value, int(seconds_used(store))

    def page_if_due(self, now: tuple[Mark, str]) -> PublishedPage | None:
        """Return a new document where the store has changed and one is due.

        One is due when documents take no more than their share of a core; at once when a search begins or ends.
        """
        if self._store is None or now == self._built:
            return None
        state_changed = self._built is not None and self._built[1] != now[1]
        if not state_changed and time.monotonic() < self._build_at:
            return None
        worked = time.thread_time()
        try:
            document = report_document(self._store, version=__version__)
            body = gzip.compress(data_text(document).encode(), _COMPRESSION, mtime=0)
        finally:  # a failed one costs as much
            self._build_at = time.monotonic() + self._pace.pause_s(time.thread_time() - worked)
        self._built = now
        self._number += 1
        return PublishedPage(f"{self._feed_id}-{self._number}", body, _summary(document))

    def interrupt(self) -> None:
        """End the query that runs now, from another thread."""
        store = self._store
        if store is not None:
            with suppress(sqlite3.Error):
                store.database.connection.interrupt()

    def close(self) -> None:
        """Close the store; the next read that is due opens it again."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(StoreError):
                store.close()

    def store(self) -> Store | None:
        """Return the open store; None while opening is not due. Raises `StoreError`."""
        found, sizes = _identity(self._path), _sizes(self._path)
        if found != self._file:
            self.close()
            self._open_at = self._build_at = 0.0
        elif self._store is not None and (self._store.database.live or sizes == self._sizes):
            return self._store
        if time.monotonic() < self._open_at:
            return None
        worked = time.thread_time()
        self.close()
        self._file, self._sizes, self._built = found, sizes, None
        try:
            self._store = Store.open(self._path, write=False)
        finally:  # opening reads the whole file, so its time grows with the size
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
        "title": document["title"],
        "results": status["results"],
        "cost_usd": status["cost_usd"],
        "tokens": status["tokens"],
        "priced": status["priced"],
        "speedup": best["speedup"] if best else None,
        "kind": best["kind"] if best else None,
    }

"""Served content: pages, documents and events by path, in a table that no file name enters."""

import gzip
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from starlette.responses import Response

from archive.store import Store
from archive.views.candidate_tables import candidates_with_text
from evokernel.report.candidate_facts import calls_document, candidate_document
from evokernel.report.html import SCRIPTS, ReportPage, data_text, shell
from evokernel.report.safe_text import one_line
from evokernel.serve.answers import moved, packed
from evokernel.serve.feed import PACE, Feed, PollingLimits

GENERATOR = "evokernel serve"
RUN_SCRIPTS = (*SCRIPTS, "live.js", "run.js")
INDEX_SCRIPTS = ("base.js", "patch.js", "live.js", "index.js")
_QUESTION = re.compile(
    r"/(?P<number>[0-9]{1,3})/(?:candidate/(?P<id>[0-9a-f]{10,16})|search/(?P<text>(?:[0-9a-f]{2}){2,400}))"
)


class ServedStores:
    """The served stores; a context manager that follows them while it is open."""

    def __init__(self, paths: Sequence[Path], *, pace: PollingLimits = PACE) -> None:
        changed = threading.Condition()
        each = replace(pace, share=pace.share / len(paths))
        self.feeds = tuple(Feed(path, changed=changed, pace=each) for path in paths)
        index = shell(INDEX_SCRIPTS, generator=GENERATOR, title=GENERATOR, charts=False, addresses={"events": "events"})
        self._pages = {"/": moved("0") if len(paths) == 1 else _page(index)}
        self._documents = {f"/{number}/document": feed for number, feed in enumerate(self.feeds)}
        self._by_number = {str(number): feed for number, feed in enumerate(self.feeds)}
        self._streams = {f"/{number}/events": (feed,) for number, feed in enumerate(self.feeds)}
        for number in range(len(paths)):
            addresses = {name: f"{number}/{name}" for name in ("events", "document", "candidate", "search")}
            run = shell(RUN_SCRIPTS, generator=GENERATOR, title=GENERATOR, addresses=addresses)
            self._pages[f"/{number}"] = _page(run)

    def __enter__(self) -> Self:
        for feed in self.feeds:
            feed.start()
        return self

    def __exit__(self, *details: object) -> None:
        for feed in self.feeds:
            feed.close()

    def answer(self, path: str) -> Response | None:
        """Return the response at a path, compressed; None for no content, none yet, or an event stream."""
        page = self._documents[path].page if path in self._documents else None
        if page is not None:
            return packed(page.body, kind="application/json", version=page.version)
        return self._pages.get(path)

    def asked(self, path: str) -> Future[bytes | None] | None:
        """Return the coming JSON, compressed, at a path that names a candidate or a text; None for another path."""
        found = _QUESTION.fullmatch(path)
        feed = self._by_number.get(found["number"]) if found else None
        if found is None or feed is None:
            return None
        return feed.ask(partial(_panel, name=found["id"]) if found["id"] else partial(_search, text=found["text"]))

    def feeds_of(self, path: str) -> tuple[Feed, ...]:
        """Return the feeds of the event stream at a path; none where there is no stream."""
        return self.feeds if path == "/events" else self._streams.get(path, ())

    def event_of(self, path: str) -> dict[str, Any]:
        """Return the newest event of a stream."""
        if path != "/events":
            return asdict(self._streams[path][0].state)
        return {"stores": [_entry(number, feed) for number, feed in enumerate(self.feeds)]}


def _entry(number: int, feed: Feed) -> dict[str, Any]:
    page = feed.page
    run = dict(page.summary) if page else None
    return {"number": number, "store": one_line(str(feed.path)), **asdict(feed.state), "run": run}


def _panel(store: Store, *, name: str) -> bytes:
    with store.database.snapshot():
        document = candidate_document(store, name, identity=store.identity())
        document["calls"] = calls_document(store, store.candidate(name).born)
    return gzip.compress(data_text(document).encode(), mtime=0)


def _search(store: Store, *, text: str) -> bytes:
    wanted = bytes.fromhex(text).decode(errors="replace")
    ids = [candidate[:10] for candidate in candidates_with_text(store, wanted)]
    return gzip.compress(data_text({"ids": ids}).encode(), mtime=0)


def _page(page: ReportPage) -> Response:
    return packed(gzip.compress(page.text.encode(), mtime=0), kind="text/html; charset=utf-8", policy=page.policy)

"""Served content: pages, documents and events by path, in a table that no file name enters."""

import gzip
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from starlette.responses import Response

from evokernel.report.html import SCRIPTS, ReportPage, shell
from evokernel.report.safe_text import one_line
from evokernel.serve.answers import moved, packed
from evokernel.serve.feed import PACE, Feed, PollingLimits

GENERATOR = "evokernel serve"
RUN_SCRIPTS = (*SCRIPTS, "live.js", "run.js")
INDEX_SCRIPTS = ("base.js", "patch.js", "live.js", "index.js")


class ServedStores:
    """The served stores; a context manager that follows them while it is open."""

    def __init__(self, paths: Sequence[Path], *, pace: PollingLimits = PACE) -> None:
        changed = threading.Condition()
        each = replace(pace, share=pace.share / len(paths))
        self.feeds = tuple(Feed(path, changed=changed, pace=each) for path in paths)
        index = shell(INDEX_SCRIPTS, generator=GENERATOR, title=GENERATOR, charts=False, addresses={"events": "events"})
        self._pages = {"/": moved("0") if len(paths) == 1 else _page(index)}
        self._documents = {f"/{number}/document": feed for number, feed in enumerate(self.feeds)}
        self._streams = {f"/{number}/events": (feed,) for number, feed in enumerate(self.feeds)}
        for number in range(len(paths)):
            addresses = {"events": f"{number}/events", "document": f"{number}/document"}
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


def _page(page: ReportPage) -> Response:
    return packed(gzip.compress(page.text.encode(), mtime=0), kind="text/html; charset=utf-8", policy=page.policy)

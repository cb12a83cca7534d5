"""What there is to be asked for: pages, documents and events, each found in a table and never by a name of a file."""

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
    """The stores that are served; a context manager that follows them while it is open."""

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
        """Return what is at a path, compressed; None where there is nothing, nothing yet, or a stream of events."""
        edition = self._documents[path].edition if path in self._documents else None
        if edition is not None:
            return packed(edition.body, kind="application/json", version=edition.version)
        return self._pages.get(path)

    def listened(self, path: str) -> tuple[Feed, ...]:
        """Return the feeds that the stream of events at a path tells of; none where there is no stream."""
        return self.feeds if path == "/events" else self._streams.get(path, ())

    def news(self, path: str) -> dict[str, Any]:
        """Return what the newest event of a stream says."""
        if path != "/events":
            return asdict(self._streams[path][0].pulse)
        return {"stores": [_entry(number, feed) for number, feed in enumerate(self.feeds)]}


def _entry(number: int, feed: Feed) -> dict[str, Any]:
    edition = feed.edition
    run = dict(edition.summary) if edition else None
    return {"number": number, "store": one_line(str(feed.path)), **asdict(feed.pulse), "run": run}


def _page(page: ReportPage) -> Response:
    return packed(gzip.compress(page.text.encode(), mtime=0), kind="text/html; charset=utf-8", policy=page.policy)

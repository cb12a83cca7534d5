"""What there is to be asked for: pages, documents and events, each found by a number and never by a name of a file."""

import gzip
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evokernel.report.html import SCRIPTS, ReportPage, shell
from evokernel.report.safe_text import one_line
from evokernel.serve.feed import PACE, Feed, PollingLimits

GENERATOR = "evokernel serve"
RUN_SCRIPTS = (*SCRIPTS, "live.js", "run.js")
INDEX_SCRIPTS = ("base.js", "patch.js", "live.js", "index.js")
_ROUTE = re.compile(r"/(?:(0|[1-9][0-9]{0,5})(?:/(document|events))?|(events))?")
_NOTHING = "default-src 'none'"


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """Something to send: its type, its gzip-compressed bytes, the policy it is under, and its version (or none)."""

    kind: str
    packed: bytes
    policy: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another place, relative to the one asked for."""

    to: str


@dataclass(frozen=True, slots=True)
class EventStream:
    """A stream of events: `look` returns what the newest says; `feeds` are kept up to date while somebody listens."""

    feeds: tuple[Feed, ...]
    look: Callable[[], Mapping[str, Any]]


Answer = ResponseBody | Redirect | EventStream


class ServedStores:
    """The stores that are served; a context manager that follows them while it is open.

    `changed` is notified whenever an event stream has something new to say.
    """

    def __init__(self, paths: Sequence[Path], *, pace: PollingLimits = PACE) -> None:
        self.changed = threading.Condition()
        each = replace(pace, share=pace.share / len(paths))
        self.feeds = tuple(Feed(path, changed=self.changed, pace=each) for path in paths)
        self._index = _body(shell(INDEX_SCRIPTS, generator=GENERATOR, title=GENERATOR, charts=False, addresses=_INDEX))
        self._runs = tuple(
            _body(shell(RUN_SCRIPTS, generator=GENERATOR, title=GENERATOR, addresses=_addresses(number)))
            for number in range(len(paths))
        )

    def __enter__(self) -> "ServedStores":
        for feed in self.feeds:
            feed.start()
        return self

    def __exit__(self, *details: object) -> None:
        for feed in self.feeds:
            feed.close()

    def answer(self, path: str) -> Answer | None:
        """Return what is at a path; None where there is nothing, or nothing yet."""
        found = _ROUTE.fullmatch(path)
        if found is None:
            return None
        number, part, events = found[1], found[2], found[3]
        if number is None:
            return self._of_all(events=bool(events))
        if int(number) >= len(self.feeds):
            return None
        feed = self.feeds[int(number)]
        if part == "events":
            return EventStream((feed,), lambda: asdict(feed.pulse))
        if part == "document":
            edition = feed.edition
            return (
                None if edition is None else ResponseBody("application/json", edition.body, _NOTHING, edition.version)
            )
        return self._runs[int(number)]

    def _of_all(self, *, events: bool) -> Answer:
        if events:
            return EventStream(self.feeds, self._overview)
        return Redirect("0") if len(self.feeds) == 1 else self._index

    def _overview(self) -> dict[str, Any]:
        return {"stores": [_entry(number, feed) for number, feed in enumerate(self.feeds)]}

    @contextmanager
    def watched(self, feeds: Sequence[Feed]) -> Iterator[None]:
        """Keep what feeds say up to date while the block runs."""
        with ExitStack() as stack:
            for feed in feeds:
                stack.enter_context(feed.watched())
            yield


def _entry(number: int, feed: Feed) -> dict[str, Any]:
    edition = feed.edition
    run = dict(edition.summary) if edition else None
    return {"number": number, "store": one_line(str(feed.path)), **asdict(feed.pulse), "run": run}


_INDEX = {"events": "events"}


def _addresses(number: int) -> dict[str, str]:
    return {"events": f"{number}/events", "document": f"{number}/document"}


def _body(page: ReportPage) -> ResponseBody:
    return ResponseBody("text/html; charset=utf-8", gzip.compress(page.text.encode(), mtime=0), page.policy)

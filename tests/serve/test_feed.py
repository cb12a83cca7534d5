"""A feed says what is in its store now: one that comes later, is written, moved, damaged, or of an old release."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store, set_aside
from evokernel.serve.feed import Feed, FeedState, PollingLimits
from tests.support.serving import QUICK, SAFETY_NET_S
from tests.support.stores import StoreBuilder, fill_store

OLD = Path(__file__).parents[1] / "old_stores"


class Watcher:
    """Watches feeds, and waits for what they say."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._changed = threading.Condition()

    def feed(self, path: Path, *, watched: bool = True) -> Feed:
        feed = Feed(path, changed=self._changed, pace=QUICK)
        feed.start()
        self._stack.callback(feed.close)
        if watched:
            self._stack.enter_context(feed.watched())
        return feed

    def until(self, true: Callable[[], Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(true, SAFETY_NET_S), "this did not come about"


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    with ExitStack() as stack:
        yield Watcher(stack)


def document(feed: Feed) -> dict[str, Any]:
    assert feed.page is not None
    found: dict[str, Any] = json.loads(gzip.decompress(feed.page.body))
    return found


def results(feed: Feed) -> int:
    """Return how many results the newest document that was announced knows, -1 without one."""
    announced = feed.page is not None and feed.state.version == feed.page.version
    return int(document(feed)["status"]["results"]) if announced else -1


def test_a_store_that_comes_later_is_followed_from_its_first_candidate_to_its_end(
    tmp_path: Path, watcher: Watcher
) -> None:
    path = tmp_path / "runs" / "later.db"
    feed = watcher.feed(path)
    watcher.until(lambda: "there is no store" in feed.state.problem)
    assert feed.page is None
    with StoreBuilder(path) as builder:
        watcher.until(lambda: (feed.state.state, feed.state.problem, results(feed)) == ("running", "", 0))
        seed = builder.seed()
        watcher.until(lambda: results(feed) == 1)
        builder.store.heartbeat(83.0)
        watcher.until(lambda: feed.state.seconds == 83)
        builder.propose("// under way\n", parents=(seed,))
        watcher.until(lambda: len(document(feed)["candidates"]["id"]) == 2)
        builder.store.session_end("enough")
        watcher.until(lambda: feed.state.state == "stopped" and document(feed)["status"]["last_stop"] == "enough")
    assert feed.page is not None
    assert feed.page.summary == {
        "title": "gemm",
        "results": 1,
        "cost_usd": 0.0,
        "tokens": 0,
        "priced": False,
        "speedup": document(feed)["status"]["best"]["speedup"],
        "kind": "search",
    }


def test_a_killed_search_is_said_to_be_killed_and_found_again_when_it_goes_on(tmp_path: Path, watcher: Watcher) -> None:
    path = tmp_path / "a.db"
    with StoreBuilder(path) as builder:
        builder.seed()
        builder.store.database.execute("UPDATE sessions SET last_seen = last_seen - 1000")
    feed = watcher.feed(path)
    watcher.until(lambda: feed.state.state == "killed")
    with Store.open(path, write=True) as store:
        store.session_start()
        watcher.until(lambda: feed.state.state == "running" and document(feed)["status"]["state"] == "running")


def test_a_store_that_begins_anew_is_another_run(tmp_path: Path, watcher: Watcher) -> None:
    path = tmp_path / "a.db"
    fill_store(path)
    feed = watcher.feed(path)
    watcher.until(lambda: results(feed) == 4)
    first = document(feed)["status"]["run_id"]
    assert set_aside(path) is not None
    watcher.until(lambda: feed.state.problem)
    assert results(feed) == 4  # what was known is still shown
    with StoreBuilder(path) as builder:
        builder.seed()
    watcher.until(lambda: not feed.state.problem and results(feed) == 1)
    assert document(feed)["status"]["run_id"] != first


def test_what_cannot_be_read_is_said_and_read_when_it_can(tmp_path: Path, watcher: Watcher) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"no store at all" * 1000)
    feed = watcher.feed(path)
    watcher.until(lambda: "is no store" in feed.state.problem)
    fill_store(tmp_path / "good.db")
    (tmp_path / "good.db").replace(path)
    watcher.until(lambda: (feed.state.problem, results(feed)) == ("", 4))


CONFIG = "islands: [{name: builders, niches: {axes: {vector_bits: [128.0]}}}]"


@pytest.mark.parametrize(
    ("altered", "said"), [("timings = '7'", "altered by hand"), ("descriptor = '7'", "evokernel verify")]
)
def test_a_store_with_nonsense_in_it_does_not_end_the_feed(
    tmp_path: Path, watcher: Watcher, altered: str, said: str
) -> None:
    path = tmp_path / "a.db"
    with StoreBuilder(path) as builder:
        builder.store.set_meta("config", CONFIG)
        best = builder.seed(speedup=3.0)
        other = builder.add("// other\n", speedup=1.0)
        feed = watcher.feed(path)
        watcher.until(lambda: results(feed) == 2)
        one = best if "timings" in altered else other
        builder.store.database.execute(f"UPDATE evaluations SET {altered} WHERE candidate = ?", (one,))
        builder.add("// one more\n", speedup=None)
        watcher.until(lambda: said in feed.state.problem)
        assert results(feed) == 2  # what was known is still shown
        builder.store.heartbeat(71.0)
        watcher.until(lambda: feed.state.seconds == 71)
        assert said in feed.state.problem  # and that it is not the newest
        builder.store.database.execute("UPDATE evaluations SET timings = '[]', descriptor = '{}', status = 'numerical'")
        watcher.until(lambda: not feed.state.problem and results(feed) == 3)


def test_an_old_store_is_shown_and_followed_when_it_goes_on(tmp_path: Path, watcher: Watcher) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((OLD / "v1_finished.db.gz").read_bytes()))
    feed = watcher.feed(path)
    watcher.until(lambda: results(feed) > 0)
    with Store.open(path, write=True) as store:  # which brings it up to date
        store.session_start()
        watcher.until(lambda: feed.state.state == "running")
    assert feed.state.problem == ""


def test_nobody_looks_at_a_store_that_nobody_watches(tmp_path: Path, watcher: Watcher) -> None:
    path = tmp_path / "a.db"
    with StoreBuilder(path) as builder:
        watched, alone = watcher.feed(path), watcher.feed(path, watched=False)
        watcher.until(lambda: results(watched) == 0 and results(alone) == 0)

        def shows(number: int) -> bool:
            return results(watched) == number

        for number in (1, 2):
            builder.add(f"// {number}\n", speedup=1.0)
            watcher.until(partial(shows, number))
        assert results(alone) == 0
        with alone.watched():
            watcher.until(lambda: results(alone) == 2)


def test_documents_take_their_share_of_a_core_and_no_more() -> None:
    pace = PollingLimits(least_s=1.0, share=0.05)
    assert pace.pause_s(0.001) == 1.0
    for took in (1.0, 20.0):
        assert took / (took + pace.pause_s(took)) == pytest.approx(0.05)


def test_closing_ends_the_thread_at_once_and_twice_is_once(tmp_path: Path) -> None:
    fill_store(tmp_path / "a.db")
    feed = Feed(tmp_path / "a.db", changed=threading.Condition())
    feed.start()
    feed.close()
    feed.close()
    assert feed.state == FeedState() or feed.state.state == "stopped"
    assert not [each for each in threading.enumerate() if each.name == "feed of a.db"]

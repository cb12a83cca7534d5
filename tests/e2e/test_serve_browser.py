"""The live page in a real browser: it follows a search that is killed and goes on, and its reader loses nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evokernel.report import html
from tests.report.test_page import evil_store
from tests.support.browser import CHROMIUM, Browser
from tests.support.serving import serving, wait_until
from tests.support.stores import StoreBuilder, fill_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]
SEARCH = Path(__file__).parents[1] / "cli" / "toy_evolve.py"
CHART = "echarts.getInstanceByDom(document.querySelector('#{} .chart'))"
SHARES = f"{CHART}.getOption().dataZoom.map((each) => [each.start, each.end])"
CANDIDATES = "Number(document.querySelector('#family .lead').textContent.match(/^[0-9,]+/)[0].replace(',', ''))"
CHARTS = "[...document.querySelectorAll('.chart')].map((each) => !!echarts.getInstanceByDom(each))"
SIDE = "document.querySelector('#family aside h3').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def quiet(browser: Browser) -> Browser:
    """The browser on an empty page, with what it complained of before forgotten: servers end with pages still open."""
    browser.call("Page.navigate", url="about:blank")
    browser.settle()
    browser.faults.clear()
    browser.requests.clear()
    return browser


def start(store: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(SEARCH), str(store), "0.1", "100000"]  # until it is killed, however late
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)


def kill(search: "subprocess.Popen[bytes]") -> None:
    os.killpg(search.pid, signal.SIGKILL)
    search.wait()


def test_the_page_follows_a_search_that_is_killed_and_goes_on(quiet: Browser, tmp_path: Path) -> None:
    store = tmp_path / "toy.db"
    with serving(store) as server:
        quiet.call("Page.navigate", url=f"{server.url}0")
        quiet.wait("document.getElementById('live')?.textContent.includes('there is no store')")
        assert "there is no store" in quiet.run("document.querySelector('main').innerText")
        quiet.run("window.since = 'the beginning'")
        search = start(store)
        try:
            quiet.wait(f"document.querySelector('#family .lead') && {CANDIDATES} >= 30")
            look_closely(quiet)
            looked = where(quiet)
            assert looked["chosen"]
            kill(search)
            before = quiet.run(CANDIDATES)
            search = start(store)
            quiet.wait(f"{CANDIDATES} >= {before + 60}")
            quiet.settle()
            now = where(quiet)
        finally:
            kill(search)
        assert quiet.run("window.since") == "the beginning"  # it was not loaded anew
        assert not quiet.run("!!document.getElementById('waiting')")
        for name in ("chosen", "pressed", "typed", "open", "top"):
            assert now[name] == looked[name]
        assert now["scale"] == pytest.approx(looked["scale"], rel=0.01)  # it is seen from as near as before
        # At the same place, in pixels; upwards the tree has an end, and kin that come there leave no room to stay.
        assert now["place"][0] == pytest.approx(looked["place"][0], rel=0.01, abs=3.0)  # the scale moves it by as much
        assert 0 <= now["place"][1] <= now["height"]
        assert quiet.run(CHARTS) == [True] * 4
        assert quiet.run(f"{SHARES.format('family')}[0][1] - {SHARES.format('family')}[0][0]") < 50.0
        assert "running" in quiet.run("document.getElementById('live').textContent")
        assert not quiet.run("document.body.innerText.match(/undefined|NaN|\\[object|null/)")
        assert quiet.faults == []
    assert {address.partition("?")[0].removeprefix(server.url) for address in quiet.requests} == {
        "0",
        "0/events",
        "0/document",
    }


def look_closely(browser: Browser) -> None:
    """Zoom, choose, open, type and scroll, as who studies a run does."""
    browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=1, mobile=False)
    browser.click("#family button", text="operator")
    browser.click("#family button", text="speed-up")
    browser.click("#family button", text="kinship")
    for _ in range(2):
        browser.click("#family button", text="+")
    browser.run("document.querySelector('#family input').value = 'ab'")
    browser.run("document.querySelector('#answer details').open = true")
    # A candidate that is in view, chosen by its niche; then a place of the page, and of a list, in the middle.
    browser.click("#niches .heat button")
    browser.run("document.querySelector('#family').scrollIntoView({block: 'start', behavior: 'instant'})")
    browser.settle()


def where(browser: Browser) -> dict[str, Any]:
    """Return what who reads the page has made of it."""
    found: dict[str, Any] = browser.run(
        f"""(() => {{
          const id = {SIDE}, tree = {CHART.format("family")}, section = document.querySelector('#family');
          const ring = tree.getOption().series.at(-1).data[0];
          const [zero, one] = [[0, 0], [1, 1]].map((each) => tree.convertToPixel('grid', each));
          return {{
            chosen: id,
            place: tree.convertToPixel('grid', ring),
            scale: [one[0] - zero[0], one[1] - zero[1]],
            height: tree.getHeight(),
            pressed: [...document.querySelectorAll('#family [aria-pressed=true]')].map((each) => each.textContent)
              .filter((text) => text !== 'shown'),  // that of second parents comes with the first of them
            typed: document.querySelector('#family input').value,
            open: document.querySelector('#answer details').open,
            top: Math.round(section.getBoundingClientRect().top),
          }};
        }})()"""
    )
    return found


def test_an_index_leads_to_each_run_and_says_when_one_begins(quiet: Browser, tmp_path: Path) -> None:
    fill_store(tmp_path / "one.db")
    with serving(tmp_path / "one.db", tmp_path / "two.db") as server:
        for width in (400, 1600):
            quiet.show(server.url, width=width)
            quiet.wait("document.body.textContent.includes('there is no store')")
            assert quiet.run("document.documentElement.scrollWidth") == width
        with StoreBuilder(tmp_path / "two.db") as builder:
            builder.seed(speedup=3.0)
            row, live = "document.querySelectorAll('#runs tbody tr')[1]", "document.getElementById('live')"

            def begun() -> bool:
                builder.store.heartbeat(1.0)  # as an engine does each second; without it a search is thought killed
                return bool(quiet.run(f"{row}.textContent.includes('3.00×') && {live}.textContent == '1 running'"))

            wait_until(begun)
        quiet.click("#runs a", text="gemm")
        quiet.wait("document.querySelector('#answer') && document.title == 'gemm · evokernel'")
        assert quiet.faults == []


def test_what_is_being_typed_stays_where_a_control_comes_before_it(quiet: Browser, tmp_path: Path) -> None:
    box = "document.querySelector('#family input')"
    with StoreBuilder(tmp_path / "run.db") as builder, serving(tmp_path / "run.db") as server:
        first = builder.seed(speedup=1.0)
        second = builder.add("// 2\nvoid run() {}\n", speedup=1.1, parents=(first,))
        quiet.show(f"{server.url}0", width=1200)
        quiet.wait(f"{CANDIDATES} == 2")
        assert "second parents" not in quiet.run("document.querySelector('#family').innerText")
        quiet.run(f"{box}.value = 'ab'; {box}.focus()")
        builder.add("// 3\nvoid run() {}\n", speedup=1.2, parents=(second, first), operator="blend")

        def shown() -> bool:
            builder.store.heartbeat(1.0)
            return bool(quiet.run("document.querySelector('#family').innerText.includes('second parents')"))

        wait_until(shown)
        assert quiet.run(f"{box}.value") == "ab"
        assert quiet.run(f"document.activeElement == {box}")
        assert quiet.faults == []


def test_words_of_strangers_are_shown_live_and_never_run(quiet: Browser, tmp_path: Path) -> None:
    evil_store(tmp_path / "evil.db")
    with serving(tmp_path / "evil.db") as server:
        for width in (400, 1600):
            quiet.show(server.url, width=width)
            assert quiet.run("document.querySelectorAll('img, iframe, #page script').length") == 0
            assert "<img src=x onerror=alert(2)>" in quiet.run("document.querySelector('h1').textContent")
            assert quiet.run("document.documentElement.scrollWidth") == width
        quiet.run("fetch('http://localhost:9/').catch(() => {})")  # what the policy allows nobody, not even our scripts
        quiet.settle()
        assert [fault for fault in quiet.faults if "Content Security Policy" not in fault] == []
        assert quiet.faults
    assert all(address.startswith(server.url) for address in quiet.requests)


def test_another_run_in_the_same_place_is_shown_from_its_beginning(quiet: Browser, tmp_path: Path) -> None:
    fill_store(tmp_path / "a.db")
    with serving(tmp_path / "a.db") as server:
        quiet.show(server.url, width=1600)
        quiet.click("#niches .heat button" if quiet.run("!!document.querySelector('#niches')") else "#family button")
        with StoreBuilder(tmp_path / "new.db") as builder:
            builder.seed(speedup=7.0)
        StoreBuilder(tmp_path / "empty.db").store.close()
        (tmp_path / "empty.db").replace(tmp_path / "a.db")
        quiet.wait("!document.querySelector('#family') && !document.querySelector('#curves')")
        (tmp_path / "new.db").replace(tmp_path / "a.db")
        quiet.wait("document.querySelector('.big strong')?.textContent == '7.00×'")
        assert quiet.run(CANDIDATES) == 1
        assert quiet.run(CHARTS) == [True, True]
        assert quiet.faults == []


RANDOM_TREES = """
const hearing = new WeakSet();
PATCH
let state = SEED;
const below = (n) => {
  state = (state * 1103515245 + 12345) % 2147483648;
  return Math.floor((state / 2147483648) * n);
};
function tree(depth) {
  if (!depth || below(4) === 0) return document.createTextNode(["a", "b", "", "c"][below(4)]);
  const made = document.createElement(["div", "p", "details", "b"][below(4)]);
  if (below(2)) made.dataset.key = "k" + below(4);
  if (below(3) === 0) made.className = "c" + below(3);
  if (below(4) === 0) made.style.setProperty("width", below(3) + "px");
  if (below(6) === 0) made.dataset.whole = "";
  if (below(6) === 0) hearing.add(made);
  for (let i = below(5); i > 0; i -= 1) made.append(tree(depth - 1));
  return made;
}
const wrong = [];
for (let round = 0; round < 400; round += 1) {
  const place = document.createElement("main"), fresh = document.createElement("main");
  for (let i = below(6); i > 0; i -= 1) place.append(tree(3));
  for (let i = below(6); i > 0; i -= 1) fresh.append(tree(3));
  const wanted = fresh.cloneNode(true);
  fill(place, fresh.childNodes);
  if (!place.isEqualNode(wanted)) wrong.push([round, place.outerHTML, wanted.outerHTML]);
}
return wrong.slice(0, 2);
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_tree_becomes_any_other(quiet: Browser, seed: int) -> None:
    """Random trees with names, texts, styles and listeners: after a change each reads as it should."""
    patch = (Path(html.__file__).parent / "page" / "patch.js").read_text()
    script = RANDOM_TREES.replace("PATCH", patch).replace("SEED", str(seed))
    assert quiet.run(f"(() => {{ {script} }})()") == []


def test_what_is_open_scrolled_or_in_focus_stays_so_when_others_come_before_it(quiet: Browser) -> None:
    patch = (Path(html.__file__).parent / "page" / "patch.js").read_text()
    kept = quiet.run(
        "(() => { const hearing = new WeakSet(); "
        + patch
        + """
        const item = (name, text) => {
          const [made, summary, long] = ["details", "summary", "pre"].map((tag) => document.createElement(tag));
          made.dataset.key = name;
          summary.textContent = name;
          long.textContent = text + "\\n".repeat(500);
          long.style.cssText = "height: 50px; overflow: auto";
          made.append(summary, long);
          return made;
        };
        const place = document.createElement("main");
        document.body.append(place);
        fill(place, [item("a", "1"), item("b", "2")]);
        const b = place.children[1];
        b.open = true;
        b.querySelector("pre").scrollTop = 400;
        b.querySelector("summary").focus();
        fill(place, [item("new", "0"), item("b", "2 and more"), item("a", "1")]);
        return [place.children[1] === b, b.open, b.querySelector("pre").scrollTop, document.activeElement.textContent,
          place.textContent.replaceAll("\\n", ""), place.children[2].open];
        })()"""
    )
    assert kept == [True, True, 400, "b", "new0b2 and morea1", False]


def test_the_policy_and_the_data_are_of_one_server(quiet: Browser, tmp_path: Path) -> None:
    """The page comes from the server with the same policy in its head as inside, and shows what the document says."""
    fill_store(tmp_path / "a.db")
    with serving(tmp_path / "a.db") as server:
        quiet.show(server.url, width=1600)
        shown = quiet.run("document.documentElement.dataset.shown")
        document = json.loads(quiet.run("fetch('0/document').then((answer) => answer.text())"))
        assert (shown, document["status"]["results"]) == (server.site.feeds[0].state.version, 4)
        assert quiet.faults == []

"""The report in a real browser: it draws itself without a complaint, every part answers, no stranger's words run."""

import csv
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Status
from evokernel.records.remarks import RemarkKind
from evokernel.records.timing import microseconds
from evokernel.report.html import page_of, report_page, write_page
from evokernel.report.page_data import columns_of, report_document
from evokernel.report.points import Point, leads
from tests.report.test_page import evil_store
from tests.support.browser import CHROMIUM, Browser
from tests.support.serving import wait_until
from tests.support.stores import StoreBuilder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]
WIDTHS = (400, 1600)
Page = Callable[[Callable[[Path], object]], Path]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(tmp_path: Path, browser: Browser) -> Page:
    """Return a way from what fills a store to its report; what the browser complained of before is forgotten."""
    browser.faults.clear()
    browser.requests.clear()

    def make(fill: Callable[[Path], object]) -> Path:
        (tmp_path / "run.db").unlink(missing_ok=True)
        fill(tmp_path / "run.db")
        with Store.open(tmp_path / "run.db", write=False) as store:
            write_page(report_page(store, version="1"), tmp_path / "run.html")
        return tmp_path / "run.html"

    return make


def search(path: Path) -> None:
    """Fill a store with a search of 120 candidates on two islands, with a crowned best and dollars."""
    axes = {"vector_bits": [128.0, 256.0], "spills": [1.0], "code_bytes": [1024.0]}
    islands = [{"name": name, "niches": {"axes": axes}} for name in ("builders", "tuners")]
    rng = random.Random(3)
    with StoreBuilder(path) as builder:
        builder.store.set_meta("config", yaml.safe_dump({"islands": islands}, sort_keys=False))
        family = [(builder.seed(speedup=0.2), 0.2)]
        for number in range(120):
            parent, speed = max(rng.sample(family, min(4, len(family))), key=lambda each: each[1])
            right, speed = rng.random() < 0.7, speed * math.exp(rng.gauss(0.02, 0.08))
            name = builder.add(
                f"// candidate {number}\nvoid run() {{ int x = {number}; }}\n",
                speedup=speed if right else None,
                parents=(parent,),
                operator=rng.choice(("mutate", "rewrite", "tune")),
                island=rng.choice(("builders", "tuners")),
                predicted_speedup=1.1,
                usage=Usage(model="small", prompt_tokens=100, completion_tokens=50, cost_usd=0.01),
                feedback="" if right else "element 3 differs",
            )
            family += [(name, speed)] if right else []
        best = max(family, key=lambda each: each[1])
        builder.final(best[0], speedup=best[1], panel={"torch": best[1], "compiled": best[1] * 1.2})
        builder.store.session_end("enough", seconds=4000.0)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_draws_itself_and_loads_nothing(browser: Browser, page: Page, width: int, dark: bool) -> None:
    path = page(search)
    browser.show(path, width=width, dark=dark)
    assert browser.faults == []
    assert browser.requests == [path.as_uri()]
    assert browser.run("document.documentElement.scrollWidth") == width  # nothing hangs over the edge
    inside = "document.querySelector('{0}').scrollWidth <= document.querySelector('{0}').clientWidth"
    assert browser.run(inside.format("#niches .wide"))  # no niche is cut
    assert browser.run(inside.format("nav"))
    headings = browser.run("[...document.querySelectorAll('h2')].map((each) => each.textContent)")
    assert len(headings) == 10
    painted = "[...document.querySelectorAll('canvas')].map((each) => each.width * each.height)"
    assert len([area for area in browser.run(painted) if area > 10_000]) >= 2
    assert not browser.run("document.body.innerText.match(/undefined|NaN|\\[object|null/)")


def lone_seed(path: Path) -> None:
    with StoreBuilder(path) as builder:
        builder.seed()


def lone_failure(path: Path) -> None:
    with StoreBuilder(path) as builder:
        builder.add("// no\n", speedup=None)


def test_times_are_written_as_in_the_terminal(browser: Browser, page: Page) -> None:
    def slow(path: Path) -> None:
        with StoreBuilder(path) as builder:
            builder.seed(speedup=2 * 100.0 / 999.7)

    browser.show(page(slow), width=1600)
    cells = browser.run("[...document.querySelectorAll('td')].map((each) => each.innerText)")
    assert {microseconds(999.7), f"{microseconds(100.0)} torch"} <= {*cells}


@pytest.mark.parametrize("fill", [lone_seed, lone_failure])
def test_a_search_that_has_just_begun_is_drawn(browser: Browser, page: Page, fill: Callable[[Path], object]) -> None:
    browser.show(page(fill), width=1600)
    for text in ("speed-up", "operator", "+"):
        browser.click("#family button", text=text)
    assert browser.faults == []


@pytest.mark.parametrize("later", [None, 2.74])
def test_what_leads_since_a_slow_final_measurement_stands_beside_it(
    browser: Browser, page: Page, later: float | None
) -> None:
    def fill(path: Path) -> None:
        with StoreBuilder(path) as builder:
            builder.seed(speedup=0.01)
            builder.final(builder.add("// slow\n", speedup=0.06), speedup=0.05)
            if later:
                builder.add("// later\n", speedup=later)

    browser.show(page(fill), width=1600)
    text = browser.run("document.querySelector('#answer').innerText")
    assert ("leads the search with 2.74×" in text) == bool(later)
    assert ("evokernel export" in text) == bool(later)
    assert browser.faults == []


def test_every_button_answers(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600)
    for part, text in (
        ("#curves", "hours"),
        ("#curves", "minutes"),
        ("#curves", "dollars"),
        ("#curves", "logarithmic"),
        ("#islands", "dollars"),
        ("#family", "gain"),
        ("#family", "generation"),
        ("#family", "operator"),
        ("#family", "island"),
        ("#family", "model"),
        ("#family", "speed-up"),
        ("#family", "hidden"),
        ("#family", "kinship"),
        ("#niches", "code bytes"),
    ):
        if browser.run(
            f"[...document.querySelectorAll('{part} button')].some((b) => b.textContent.includes('{text}'))"
        ):
            browser.click(f"{part} button", text=text)
            pressed = f"[...document.querySelectorAll('{part} [aria-pressed=true]')].map((b) => b.textContent)"
            assert text in browser.run(pressed)
        else:
            assert text in ("hours", "minutes")
    assert browser.faults == []


def test_the_story_opens_its_changes(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600)
    closed = browser.run("document.querySelectorAll('#story details.diff').length")
    browser.click("#story .controls button")
    assert browser.run("document.querySelectorAll('#story details.diff[open]').length") == closed > 0
    assert "+// candidate" in browser.run("document.querySelector('#story pre').innerText")
    browser.click("#failures summary")
    assert "element 3 differs" in browser.run("document.querySelector('#failures details[open]').innerText")


def long_line(path: Path) -> None:
    """Fill a store with forty steps of 1 % from parent to child, two of them larger."""
    with StoreBuilder(path) as builder:
        name, speed = builder.seed(speedup=0.2), 0.2
        for number in range(40):
            speed *= 2.0 if number in (11, 30) else 1.01
            name = builder.add(f"// {number}\nvoid run() {{}}\n", speedup=speed, parents=(name,))


def repaired(path: Path) -> None:
    """Fill a store whose best came of a candidate that had failed."""
    with StoreBuilder(path) as builder:
        broken = builder.add(
            "// random\n", speedup=None, parents=(builder.seed(speedup=0.2),), status=Status.NONDETERMINISTIC
        )
        builder.add("// the same each time\n", speedup=2.0, parents=(broken,), operator="repair")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_verdict_on_an_ancestor_is_not_broken_within_a_word(browser: Browser, page: Page, width: int) -> None:
    browser.show(page(repaired), width=width)
    lines = browser.run(
        "(() => { const range = document.createRange(); range.selectNodeContents("
        "[...document.querySelectorAll('.stop strong')].find((each) => each.textContent == 'nondeterministic')); "
        "return range.getClientRects().length; })()"
    )
    assert lines == 1


def test_no_word_of_a_legend_that_scrolls_is_cut_off_at_its_top(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=240)
    above = browser.run(
        "[...document.querySelectorAll('.chart')].flatMap((place) => "
        "echarts.getInstanceByDom(place).getZr().storage.getDisplayList(true)).filter((each) => each.style.text && "
        "each.__clipPaths?.length).map((each) => [each, each.__clipPaths[0]].map((part) => { "
        "const box = part.getBoundingRect().clone(), at = part.getComputedTransform(); "
        "if (at) box.applyTransform(at); return box; })).map(([word, clip]) => word.y + word.height / 2 - clip.y)"
    )
    assert above
    assert min(above) >= 6  # half of the size of the font


def test_a_long_story_is_told_by_its_largest_steps(browser: Browser, page: Page) -> None:
    path = page(long_line)
    for width in WIDTHS:
        browser.show(path, width=width)
        told = browser.run("[...document.querySelectorAll('#story > .chapters > li, #story ol.chapters > li')].length")
        assert told == 41 + browser.run("document.querySelectorAll('#story details.between').length")
        shown = "[...document.querySelectorAll('#story .outcome b')].filter((b) => b.checkVisibility())"
        assert browser.run(f"{shown}.map((b) => b.textContent).filter((text) => text.startsWith('2')).length") == 2
        assert browser.run(f"{shown}.length") == 3  # those two, and the last
        assert browser.run("document.querySelectorAll('#story details.between').length") == 3
        browser.click("#story .controls button")
        assert browser.run(f"{shown}.length") == 40
    assert browser.faults == []


CHART = "echarts.getInstanceByDom(document.querySelector('#family .chart'))"
SIDE = "document.querySelector('#family aside').innerText"


def place_of(browser: Browser, i: int) -> tuple[float, float]:
    """Return where a candidate stands in the window."""
    x, y = browser.run(
        "(() => { const at = document.querySelector('#family .chart'); at.scrollIntoView({block: 'center', "
        "behavior: 'instant'}); const box = at.getBoundingClientRect(), all = "
        f"JSON.parse(document.getElementById('data').textContent).candidates, to = {CHART}.convertToPixel('grid', "
        f"[all.step[{i}], all.lane[{i}]]); return [box.x + to[0], box.y + to[1]]; }})()"
    )
    return x, y


def test_a_candidate_is_chosen_by_the_mouse_by_its_id_and_by_its_niche(
    browser: Browser, page: Page, tmp_path: Path
) -> None:
    browser.show(page(search), width=1600)
    names = browser.run("JSON.parse(document.getElementById('data').textContent).candidates.id")
    browser.press(*place_of(browser, 20))
    assert names[20] in browser.run(SIDE)
    browser.click("#family aside button", text="parent")
    assert names[20] not in browser.run(SIDE)
    browser.run(
        "(() => { const field = document.querySelector('#family input'); "
        f"field.value = {names[33][:6]!r}; field.dispatchEvent(new Event('change')); }})()"
    )
    assert names[33] in browser.run(SIDE)
    browser.click("#niches .heat button")
    assert names[33] not in browser.run(SIDE)
    folder = tmp_path / "saved"
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.click("#niches .controls button", text="CSV")
    saved = folder / "gemm_niches.csv"
    wait_until(lambda: saved.exists() and saved.stat().st_size)  # the name is there before the rows are
    row = next(csv.DictReader(saved.read_text().splitlines()))
    assert (row["axis_1"], row["islands"]) == ("vector_bits", "builders tuners")
    assert row["best"] in names
    assert "evokernel show" in browser.run(SIDE)


def test_the_tree_zooms_and_comes_back(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600)
    span = f"{CHART}.getOption().dataZoom.map((each) => Math.round(each.end - each.start))"
    browser.click("#family button", text="+")
    browser.click("#family button", text="+")
    assert browser.run(span) == [25, 25]
    browser.click("#family button", text="operator")
    assert browser.run(span) == [25, 25]  # another colour is no other place
    last = browser.run("JSON.parse(document.getElementById('data').textContent).candidates.id.length") - 1
    for name in (0, last):  # what is looked for comes into view, however near one looks
        browser.run(
            "(() => { const field = document.querySelector('#family input'); field.value = "
            f"JSON.parse(document.getElementById('data').textContent).candidates.id[{name}]; "
            "field.dispatchEvent(new Event('change')); })()"
        )
        browser.click("#family button", text="+")
        x, y = place_of(browser, name)
        box = browser.run("document.querySelector('#family .chart').getBoundingClientRect().toJSON()")
        assert box["left"] <= x <= box["right"]
        assert box["top"] <= y <= box["bottom"]
    assert browser.run(span) == [6, 6]
    browser.click("#family button", text="all")
    assert browser.run(span) == [100, 100]


def exchanged(path: Path) -> None:
    """Fill a store with three islands' kernels, one with two parents, a migration and a reset."""
    with StoreBuilder(path) as builder:
        seed = builder.seed(speedup=0.5)
        one = builder.add("// one\n", speedup=1.0, parents=(seed,), island="builders", rationale="planted words")
        two = builder.add("// two\n", speedup=1.5, parents=(one,), island="tuners")
        builder.add("// three\n", speedup=4.0, parents=(one, two), island="builders", operator="blend")
        builder.store.remarks.add(RemarkKind.MIGRATION, "migration: 7 elites settled", step=2)
        builder.store.remarks.add(RemarkKind.RESET, "island tuners starts again", step=3)


def series(browser: Browser, part: str) -> dict[str, list[list[float]]]:
    """Return the data of the series of a chart that have a name and are no area, by name."""
    found: dict[str, list[list[float]]] = browser.run(
        f"Object.fromEntries(echarts.getInstanceByDom(document.querySelector('#{part} .chart')).getOption().series"
        ".filter((each) => each.name && each.type != 'custom').map((each) => [each.name + (each.yAxisIndex || ''), "
        "[...each.data]]))"
    )
    return found


def test_curves_have_the_interval_of_the_best_and_ticks_for_what_islands_exchanged(
    browser: Browser, page: Page
) -> None:
    browser.show(page(exchanged), width=1600)
    drawn = series(browser, "curves")
    assert drawn["migration"] == [[3, 0, "migration: 7 elites settled\nstep 2"]]
    assert drawn["reset"] == [[4, 0, "island tuners starts again\nstep 3"]]
    corners = browser.run(
        "(() => { const chart = echarts.getInstanceByDom(document.querySelector('#curves .chart')), found = []; "
        "chart.getOption().series.find((each) => each.type == 'custom').renderItem(null, {coord: (at) => "
        "found.push(at)}); return found; })()"
    )
    assert corners[0] == [1, pytest.approx(0.5, rel=0.1)]
    assert [corner[0] for corner in corners] == [1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4, 3, 3, 2, 2, 1]
    assert all(low[1] < high[1] < 1.1 * low[1] for low, high in zip(corners[:8], corners[:7:-1], strict=True))
    browser.click("#curves button", text="logarithmic")
    assert browser.faults == []


def test_islands_have_their_best_their_diversity_and_what_they_took(browser: Browser, page: Page) -> None:
    browser.show(page(exchanged), width=1600)
    drawn = series(browser, "islands")
    assert [at[:2] for at in drawn["builders"]] == [[2, 1], [4, 1], [4, 4], [4, 4]]
    assert [at[:2] for at in drawn["tuners2"]] == [[3, 1], [4, 1]]
    table = browser.run("[...document.querySelectorAll('#islands tbody tr')].map((row) => row.innerText)")
    assert [row.split() for row in table] == [["builders", "–", "1"], ["tuners", "1", "–"]]
    browser.show(page(search), width=400, dark=True)
    assert {value for _, value, *_ in series(browser, "islands")["tuners1"]} == {1}  # every source was another
    assert browser.faults == []


def test_the_tree_has_second_parents_generations_and_a_search_as_one_types(browser: Browser, page: Page) -> None:
    browser.show(page(exchanged), width=1600)
    second = f"{CHART}.getModel().getSeriesByName('second parents').map((each) => each.getData().count())"
    assert browser.run(second) == [1]
    browser.click("#family button", text="generation")
    assert browser.run(f"{CHART}.getOption().xAxis[0].max") == 2
    browser.click("#family button", text="left out")
    assert browser.run(second) == []
    browser.run(
        "(() => { const field = document.querySelector('#family input'); field.value = 'Planted WORDS'; "
        "field.dispatchEvent(new Event('input')); })()"
    )
    browser.wait("document.querySelector('#family .found').textContent == '1 found'")
    browser.run("document.querySelector('#family input').dispatchEvent(new Event('change'))")
    assert "planted words" in browser.run(SIDE)
    assert "generation" in browser.run(SIDE)
    assert browser.faults == []


def many(count: int) -> list[Point]:
    """Return a search in which each candidate is a child of one of the last fifty parents of many."""
    rng = random.Random(5)
    points: list[Point] = []
    for step in range(count):
        parent = points[max(0, step - 1 - rng.randrange(50)) // 10 * 10] if points else None
        speedup = 1.0 + rng.random() if rng.random() < 0.8 else None
        refuted = "numerical" if speedup is None else ""
        name, since = f"{step:010x}", parent.candidate if parent else ""
        why, island = f"unroll: by {step % 8}", rng.choice(("one", "two"))
        line = (
            name,
            step,
            "unroll",
            island,
            "",
            why,
            None,
            since,
            refuted,
            refuted or "ok",
            speedup,
            speedup,
            step,
            "",
        )
        points.append(Point(*line, evaluations=step, hours=step / 3600, dollars=0.0))
    return points


def test_twenty_thousand_candidates_are_drawn_as_far_as_they_can_be_seen(browser: Browser, tmp_path: Path) -> None:
    browser.faults.clear()
    search(tmp_path / "run.db")
    with Store.open(tmp_path / "run.db", write=False) as store:
        document = report_document(store, version="1")
    points = many(20_000)
    document["candidates"] = columns_of(points)
    document["leads"] = [{"island": "", "points": leads(points)}]
    document["niches"] = []
    write_page(page_of(document), tmp_path / "run.html")
    browser.show(tmp_path / "run.html", width=1600)
    edges = f"{CHART}.getModel().getSeriesByIndex(0).getData().count()"
    parents = len({point.parent for point in points})
    assert 0 < browser.run(edges) <= parents  # no edge to one that has no children: nobody could tell them apart
    for _ in range(4):
        browser.click("#family button", text="+")
    seen = browser.run(edges)
    assert 0 < seen < 3000
    inside = browser.run(
        f"(() => {{ const grid = {CHART}.getModel().getComponent('grid').coordinateSystem, "
        "[x, y] = grid.getCartesians()[0].getAxes().map((axis) => axis.scale.getExtent()), "
        "all = JSON.parse(document.getElementById('data').textContent).candidates, "
        "inside = (step, i) => step > (x[0] + x[1]) / 2 && all.lane[i] > y[0] && all.lane[i] < y[1]; "
        "return all.step.findIndex(inside); })()"
    )
    browser.press(*place_of(browser, inside))
    assert "evokernel show" in browser.run(SIDE)
    assert browser.faults == []


def test_words_of_strangers_are_shown_and_never_run(browser: Browser, page: Page) -> None:
    path = page(evil_store)
    for width in WIDTHS:
        browser.show(path, width=width)
        assert browser.faults == []
        assert browser.run("document.querySelectorAll('img, iframe, #page script').length") == 0
        assert browser.run("document.querySelectorAll('script').length") == 3
        assert "<img src=x onerror=alert(2)>" in browser.run("document.querySelector('h1').textContent")
        assert browser.run("document.documentElement.scrollWidth") == width
    browser.click("#family button", text="operator")
    browser.click("#story .controls button")
    assert browser.faults == []
    assert set(browser.requests) == {path.as_uri()}


def test_the_policy_stops_what_would_run_all_the_same(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 2'}))"
    )
    browser.settle()
    assert browser.run("window.ran === undefined")
    assert browser.faults  # each attempt is in the console: so a page without faults made none


def test_it_prints_every_chart_as_wide_as_the_paper(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    seen = "[...each.querySelectorAll('canvas')].filter((one) => one.checkVisibility())"  # a second one prints as white
    drawn = f"{seen}.map((one) => one.clientWidth == each.clientWidth && each.clientWidth < 700)"
    assert browser.run(f"[...document.querySelectorAll('.chart')].map((each) => {drawn})") == [[True]] * 4
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelector('#curves .chart').clientWidth") > 1000


@pytest.mark.parametrize(
    ("steps", "shown", "hidden"), [(1060, "1,000", "1,060"), (1000, "1,000", ""), (900, "900", "")]
)
def test_the_end_of_an_axis_has_a_label_where_the_one_before_is_far(
    browser: Browser, page: Page, steps: int, shown: str, hidden: str
) -> None:
    def fill(path: Path) -> None:
        with StoreBuilder(path) as builder:
            builder.seed()
            for _ in range(steps - 1):
                builder.nothing("no idea")
            builder.add("// last\n", speedup=2.0)

    browser.show(page(fill), width=1400)
    texts = browser.run(
        "echarts.getInstanceByDom(document.querySelector('#family .chart')).getZr().storage.getDisplayList()"
        ".filter((each) => each.type === 'tspan').map((each) => each.style.text)"
    )
    assert (shown in texts, hidden in texts) == (True, False)


def test_it_prints_in_light_colours(browser: Browser, page: Page) -> None:
    browser.show(page(search), width=1600, dark=True)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("getComputedStyle(document.body).getPropertyValue('--card').trim()") == "#fff"
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("getComputedStyle(document.body).getPropertyValue('--card').trim()") == "#171c26"
    assert browser.printed().startswith(b"%PDF")
    assert browser.faults == []

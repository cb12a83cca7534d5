"""The table and the panels of candidates in a real browser, in the file and live: each view shows a planted value."""

import csv
import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from archive.session_notes import write_host_activity
from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.host_activity import HostActivity, HostState
from evokernel.report import html
from evokernel.report.html import report_page, write_page
from tests.report.test_page import EVIL, evil_store
from tests.support.browser import CHROMIUM, Browser
from tests.support.serving import serving, wait_until
from tests.support.stores import StoreBuilder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]
ROWS = "[...document.querySelectorAll('.lines .line')].map((row) => row.querySelector('a').textContent)"
TAB = "document.getElementById('tab').innerText"
OLD = "#include <cmath>\n" + "".join(f"int line_{number};\n" for number in range(20))
Shown = Callable[..., None]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def fill(path: Path) -> dict[str, str]:
    """Write a run with a planted value for each view; return ids by name."""
    with StoreBuilder(path) as builder:
        seed = builder.seed(speedup=0.1, source=OLD)
        parent = builder.add(f"{OLD}// planted parent\n", speedup=1.0, parents=(seed,), rationale="planted reason")
        builder.call("a planted reply", prompt="a planted prompt", model="planted-model")
        best = builder.add(
            OLD.replace("int line_9;", "int planted_line; // planted comment"),
            speedup=6.0,
            parents=(parent, seed),
            operator="mutate",
            island="tuners",
            inspirations=(seed,),
            predicted_speedup=3.0,
            usage=Usage(model="planted-model", prompt_tokens=200, completion_tokens=100, cost_usd=0.25),
        )
        wrong = builder.add("// wrong\n", speedup=None, parents=(parent,), feedback="a planted fault at [3, 4]")
        on_a_gpu = builder.evaluation(builder.store.candidate(parent).candidate, speedup=1.0)
        compiled = {"registers": 96.0, "spills": 8.0, "occupancy": 0.375}
        builder.store.add_evaluation(dataclasses.replace(on_a_gpu, descriptor=compiled))
        check = HiddenCheck({"M": 7}, reason="a planted check")
        builder.store.add_check(check, [], operator="testing", model="", step=None)
        write_host_activity(builder.store, [HostActivity("planted-host", "GPU", HostState.READY, 0, 3, 0, 0, "", None)])
        builder.final(best, speedup=4.9, panel={"torch": 5.0, "planted-baseline": 4.5})
        builder.store.session_end("enough")
    return {"seed": seed, "parent": parent, "best": best, "wrong": wrong}


@pytest.fixture(params=["file", "live"])
def shown(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Show the page as a file with prompts, and live; yield ids by name, and the address of the page."""
    ids = fill(tmp_path / "run.db")
    browser.call("Page.navigate", url="about:blank")
    browser.settle()
    browser.faults.clear()
    if request.param == "live":
        with serving(tmp_path / "run.db") as server:
            browser.show(server.url, width=1400)
            yield ids, f"{server.url}0"
        browser.call("Page.navigate", url="about:blank")
    else:
        with Store.open(tmp_path / "run.db", write=False) as store:
            write_page(report_page(store, version="1", prompts=True), tmp_path / "run.html")
        browser.show(tmp_path / "run.html", width=1400)
        yield ids, (tmp_path / "run.html").as_uri()


def open_tab(browser: Browser, name: str, title: str) -> str:
    """Open a candidate by its address and a tab by a click; return what the tab says."""
    browser.run(f"location.hash = '#candidate={name}'")
    browser.wait("!!document.querySelector('#panel:not([hidden])')")
    browser.click("#panel [role=tab]", text=title)
    tab = browser.run("document.querySelector('#panel [aria-selected=true]').dataset.tab")
    browser.wait(f"document.getElementById('tab').dataset.shown == '{name[:10]} {tab}'")
    return str(browser.run(TAB))


def type_in(browser: Browser, text: str) -> None:
    browser.run(
        "(() => { const field = document.querySelector('.listing input'); "
        f"field.value = {text!r}; field.dispatchEvent(new Event('input')); }})()"
    )


def test_each_tab_shows_what_was_planted(browser: Browser, shown: tuple[dict[str, str], str]) -> None:
    ids, _ = shown
    source = open_tab(browser, ids["best"], "Source")
    assert "int planted_line;" in source
    assert browser.run("document.querySelector('#tab .comment').textContent") == "// planted comment"
    assert browser.run("document.querySelectorAll('#tab .row').length") == 21
    diff = open_tab(browser, ids["best"], "Diff")
    assert "+int planted_line; // planted comment" in diff
    assert "-int line_9;" in diff
    assert "-// planted parent" in diff
    assert "line_2;" not in diff  # far from what changed
    browser.click("#tab .choice button", text=ids["seed"][:8])
    browser.wait(f"!{TAB}.includes('planted parent')")
    measured = open_tab(browser, ids["best"], "Measured")
    for text in ("final speed-up", "search speed-up", "planted-baseline", "holdout-a", "vector bits", "256", "memory"):
        assert text in measured
    assert "a planted fault at [3, 4]" in open_tab(browser, ids["wrong"], "Measured")
    measured = " ".join(open_tab(browser, ids["parent"], "Measured").split())
    for text in ("registers 96", "spills 8", "occupancy 38 %", "1 earlier evaluation"):
        assert text in measured
    prompt = open_tab(browser, ids["best"], "Prompt")
    for text in ("a planted prompt", "a planted reply", "planted-model", "300 tokens"):
        assert text in prompt
    assert "No model was asked" in open_tab(browser, ids["wrong"], "Prompt")
    lineage = open_tab(browser, ids["parent"], "Lineage")
    assert f"Children (2)\n{ids['best'][:8]} search 6.00×, final 4.90×" in lineage
    assert "Inspired by (1)" in open_tab(browser, ids["best"], "Lineage")
    browser.click("#tab a", text=ids["parent"][:8])
    browser.wait(f"location.hash == '#candidate={ids['parent'][:10]}'")
    assert browser.faults == []


def test_each_section_shows_what_was_planted(browser: Browser, shown: tuple[dict[str, str], str]) -> None:
    ids, _ = shown

    def says(title: str, click: str = "") -> str:
        browser.click("#contents a", text=title)
        at = browser.run("location.hash")
        if click:
            browser.click(f"{at} summary", text=click)
        return " ".join(browser.run(f"document.querySelector('{at}').innerText").split())

    assert "planted-baseline 4.50×" in says("The answer")
    assert "int planted_line;" in says("The answer", "Source of the kernel")
    assert "+int planted_line;" in says("How the best came about", "−2")
    assert "a planted fault at [3, 4]" in says("What failed", "numerical")
    effort = says("What was tried")
    rows = ("mutate 1 100 % 6.00×", "planted-model 1 0 300 $0.25", "mutate planted-model 1 1 1.792 $0.25 1 s 7.17")
    for row in (*rows, "tuners 1 100 % 6.00×", "planted-host GPU – – 3", "M=7 – a planted check testing"):
        assert row in effort, effort
    dot = browser.run(
        "(() => { const place = document.querySelector('#curves .chart'), box = place.getBoundingClientRect(), "
        "at = echarts.getInstanceByDom(place).convertToPixel('grid', [3, 6]); "
        "place.scrollIntoView({block: 'center', behavior: 'instant'}); const now = place.getBoundingClientRect(); "
        "return [now.x + at[0], now.y + at[1]]; })()"
    )
    browser.press(*dot)
    browser.wait(f"location.hash == '#candidate={ids['best'][:10]}'")
    assert browser.faults == []


def test_the_table_sorts_filters_and_searches(browser: Browser, shown: tuple[dict[str, str], str]) -> None:
    ids, _ = shown
    name = {key: value[:8] for key, value in ids.items()}
    assert browser.run(ROWS) == [name[each] for each in ("best", "parent", "seed", "wrong")]
    browser.click(".heads button", text="search speed-up")
    assert browser.run(ROWS) == [name[each] for each in ("seed", "parent", "best", "wrong")]
    browser.click(".heads button", text="step")
    assert browser.run(ROWS) == [name[each] for each in ("seed", "parent", "best", "wrong")]
    assert "4.90×" in browser.run("document.querySelectorAll('.lines .line')[2].querySelector('.final').textContent")
    for kind, value, found in (
        ("status", "numerical", "wrong"),
        ("operator", "mutate", "best"),
        ("island", "tuners", "best"),
        ("model", "planted-model", "best"),
    ):
        choose = f"document.querySelector('.listing select[data-kind={kind}]')"
        browser.run(f"{choose}.value = {value!r}; {choose}.dispatchEvent(new Event('change'))")
        assert browser.run(ROWS) == [name[found]]
        browser.run(f"{choose}.value = ''; {choose}.dispatchEvent(new Event('change'))")
    for text, found in (("PLANTED_line", "best"), ("planted reason", "parent"), (name["wrong"][:5], "wrong")):
        type_in(browser, text)
        browser.wait(f"JSON.stringify({ROWS}) == '[\"{name[found]}\"]'")
    type_in(browser, "nowhere .* at all")
    browser.wait("document.querySelector('.found').textContent == '0 of 4 candidates'")
    assert browser.faults == []


def test_each_number_says_whether_the_search_or_a_final_measurement_gave_it(
    browser: Browser, shown: tuple[dict[str, str], str]
) -> None:
    answer = browser.run("document.querySelector('#answer').innerText")
    for text in (
        "times the speed of the fastest baseline, final measurement",
        "In the search it was 6.00×",
        "Final measurement: each workload",
    ):
        assert text in answer
    measured = browser.run(
        "[...document.querySelectorAll('#answer td[data-label=measured]')].map((td) => td.innerText)"
    )
    assert set(measured) <= {"final", "search"}
    stops = browser.run("[...document.querySelectorAll('#story .stop')].map((stop) => stop.innerText)")
    assert all("search" in stop for stop in stops)
    heads = browser.run("[...document.querySelectorAll('main th, .heads button')].map((head) => head.innerText)")
    assert {"search speed-up", "final speed-up", "best gain, search", "best there, search"} <= set(heads)


def test_a_prediction_stands_beside_what_came_of_it_and_leads_to_its_candidate(
    browser: Browser, shown: tuple[dict[str, str], str]
) -> None:
    ids, _ = shown
    lead = browser.run("document.querySelector('#expected .lead').textContent")
    assert lead.startswith("1 right candidate came with a prediction; 1 kept it. ")
    assert "measured / predicted is 2.00×" in lead
    x, y = browser.run(
        "(() => { const at = document.querySelector('#expected .chart'); at.scrollIntoView({block: 'center', behavior: "
        "'instant'}); const box = at.getBoundingClientRect(), to = echarts.getInstanceByDom(at).convertToPixel('grid', "
        "[3, 6]); return [box.x + to[0], box.y + to[1]]; })()"
    )
    browser.press(x, y)
    browser.wait(f"location.hash == '#candidate={ids['best'][:10]}'")
    assert browser.faults == []


def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=13 if key == "Enter" else 0)
    browser.settle()


def test_keys_and_the_address_lead_to_a_candidate_and_back(browser: Browser, shown: tuple[dict[str, str], str]) -> None:
    ids, address = shown
    browser.run("document.querySelector('.scroll').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        press(browser, key)
    browser.wait(f"document.querySelector('#panel:not([hidden]) h2')?.textContent == '{ids['parent'][:10]}'")
    press(browser, "ArrowDown")  # the panel follows
    browser.wait(f"document.querySelector('#panel h2').textContent == '{ids['seed'][:10]}'")
    press(browser, "Escape")
    assert browser.run("document.querySelector('#panel').hidden")
    assert browser.run("document.activeElement.className.includes('scroll')")
    browser.call("Page.navigate", url="about:blank")
    browser.show(f"{address}#candidate={ids['wrong']}", width=390, dark=True)
    browser.wait("!!document.getElementById('tab')?.dataset.shown")
    assert "// wrong" in browser.run(TAB)
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.run("document.querySelector('#panel').scrollWidth <= 390")
    assert browser.run(
        "[...document.querySelectorAll('td.plot:empty')].map((each) => each.getClientRects().length)"
    ) == [0]
    named = "document.querySelector('#panel h2').textContent"
    browser.run(f"location.hash = '#candidate={ids['seed']}'")
    browser.wait(f"{named} == '{ids['seed'][:10]}'")
    browser.run("setTimeout(() => history.back())")
    browser.wait(f"{named} == '{ids['wrong'][:10]}'")
    assert browser.faults == []


def test_a_file_without_prompts_says_how_to_get_them(browser: Browser, tmp_path: Path) -> None:
    ids = fill(tmp_path / "run.db")
    with Store.open(tmp_path / "run.db", write=False) as store:
        write_page(report_page(store, version="1"), tmp_path / "run.html")
    browser.show(tmp_path / "run.html", width=1400)
    prompt = open_tab(browser, ids["best"], "Prompt")
    assert "planted reply" not in prompt
    assert "--with-prompts" in prompt


@pytest.mark.parametrize("live", [False, True])
def test_words_of_strangers_stay_words_in_every_tab(browser: Browser, tmp_path: Path, live: bool) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.settle()
    browser.faults.clear()
    evil_store(tmp_path / "evil.db")
    with serving(tmp_path / "evil.db") as server, Store.open(tmp_path / "evil.db", write=False) as store:
        ids = [row["id"] for row in store.database.rows("SELECT id FROM candidates")]
        write_page(report_page(store, version="1", prompts=True), tmp_path / "evil.html")
        browser.show(server.url if live else tmp_path / "evil.html", width=390)
        for name in ids:
            for title in ("Source", "Diff", "Measured", "Prompt", "Lineage"):
                open_tab(browser, name, title)
        type_in(browser, EVIL[:40])
        browser.wait("!document.querySelector('.found').textContent.includes('looking')")
        assert browser.run("document.querySelectorAll('img, iframe, #page script, #panel script').length") == 0
        assert browser.run("document.documentElement.scrollWidth") == 390
        browser.call("Page.navigate", url="about:blank")
    assert browser.faults == []


def test_only_rows_in_view_are_in_the_page(browser: Browser, tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "run.db") as builder:
        seed = builder.seed()
        for number in range(400):
            builder.add(f"// {number}\n", speedup=1.0 + number, parents=(seed,))
        with Store.open(tmp_path / "run.db", write=False) as store:
            write_page(report_page(store, version="1"), tmp_path / "run.html")
    browser.show(tmp_path / "run.html", width=1400)
    first = browser.run(ROWS)
    assert len(first) < 60
    browser.run("document.querySelector('.scroll').scrollTop = 400 * 34")
    browser.wait(f"{ROWS}.at(-1) == '{seed[:8]}'")
    assert not set(first) & set(browser.run(ROWS))
    assert browser.run("document.querySelectorAll('.lines .line').length") < 60


RANDOM_LINES = r'''
const el = () => null;
SOURCES
let state = 1;
const below = (n) => {
  state = (state * 1103515245 + 12345) % 2147483648;
  return Math.floor((state / 2147483648) * n);
};
const pick = (from, most) => Array.from({ length: below(most) }, () => from[below(from.length)]);
function common(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  a.forEach((one, i) => b.forEach((other, j) => {
    table[i + 1][j + 1] = one === other ? table[i][j] + 1 : Math.max(table[i][j + 1], table[i + 1][j]);
  }));
  return table[a.length][b.length];
}
const wrong = [], parts = ["'", '"', '"""', "#", "//", "/*", "*/", "\n", "\\", "a", "for", "1", "(", "@"];
for (let round = 0; round < 2000; round += 1) {
  const [before, after] = [pick("abc", 12), pick("abc", 12)], steps = edits(before, after);
  const kept = (but) => steps.filter(([sign]) => sign !== but).map(([, line]) => line).join();
  const right = kept("+") === before.join() && kept("-") === after.join();
  if (!right || steps.filter(([sign]) => sign === " ").length !== common(before, after)) wrong.push([before, after]);
  const source = pick(parts, 60).join("");
  for (const language of ["cpp", "triton", "cuda"]) {
    if (tokensOf(source, language).map(([, text]) => text).join("") !== source) wrong.push([language, source]);
  }
}
return wrong.slice(0, 2);
'''


def test_a_diff_has_both_sources_and_the_fewest_steps_and_colours_lose_no_letter(browser: Browser) -> None:
    script = (Path(html.__file__).parent / "page" / "sources.js").read_text()
    assert browser.run(f"(() => {{ {RANDOM_LINES.replace('SOURCES', script)} }})()") == []


def test_a_panel_follows_its_candidate_to_the_verdict(browser: Browser, tmp_path: Path) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.faults.clear()
    with StoreBuilder(tmp_path / "run.db") as builder, serving(tmp_path / "run.db") as server:
        seed = builder.seed()
        waiting = builder.propose("// under way\n", parents=(seed,), rationale="long " * 200 + "end")
        browser.show(server.url, width=1400)
        assert "It waits for its verdict" in open_tab(browser, waiting.candidate.id, "Measured")
        assert "long end" in open_tab(browser, waiting.candidate.id, "Prompt")
        open_tab(browser, waiting.candidate.id, "Measured")
        builder.store.commit(waiting.step, builder.evaluation(waiting.candidate, speedup=2.5))
        browser.wait("document.querySelector('#panel header').textContent.includes('search 2.50×')")
        browser.wait(f"{TAB}.includes('2.50× search speed-up')")
        type_in(browser, "long end")  # the end of a rationale, which the table does not have
        browser.wait(f"JSON.stringify({ROWS}) == '[\"{waiting.candidate.id[:8]}\"]'")
        builder.store.session_end("enough")
        browser.call("Page.navigate", url="about:blank")
    assert browser.faults == []


def is_filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def test_rows_and_charts_are_saved_as_files(browser: Browser, tmp_path: Path) -> None:
    browser.faults.clear()
    with StoreBuilder(tmp_path / "run.db") as builder:
        seed = builder.seed(speedup=0.5)
        builder.add("// a\n", speedup=2.0, parents=(seed,), rationale='=HYPERLINK("evil"), "quoted"')
        write_page(report_page(builder.store, version="1"), tmp_path / "run.html")
    browser.show(tmp_path / "run.html", width=1400)
    folder = tmp_path / "saved"
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    saved = {}
    for part, text, name in (
        ("#candidates .controls button", "CSV", "gemm_candidates.csv"),
        ("#curves button", "PNG", "gemm_curves.png"),
        ("#curves button", "SVG", "gemm_curves.svg"),
        ("#curves button", "CSV", "gemm_curves.csv"),
        ("#family button", "SVG", "gemm_family.svg"),
        ("#family button", "CSV", "gemm_family.csv"),
    ):
        browser.click(part, text=text)
        path = folder / name
        wait_until(partial(is_filled, path))
        saved[name] = path.read_bytes()
    first, second = csv.DictReader(saved["gemm_candidates.csv"].decode().splitlines())
    assert (first["search_speedup"], first["gain"], first["parent"]) == ("2", "4", seed[:10])
    assert (first["rationale"], second["operator"]) == ('\'=HYPERLINK("evil"), "quoted"', "seed")
    leads = [*csv.DictReader(saved["gemm_curves.csv"].decode().splitlines())]
    assert [(lead["line"], lead["search_speedup"]) for lead in leads[:2]] == [("the run", "0.5"), ("the run", "2")]
    assert len(saved["gemm_family.csv"].splitlines()) == 3
    assert saved["gemm_curves.png"].startswith(b"\x89PNG")
    for name in ("gemm_curves.svg", "gemm_family.svg"):
        assert saved[name].startswith(b"<svg")
    assert browser.faults == []

"""The page as a file: what it holds is data, whatever a candidate or a model wrote."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.fork import fork
from archive.identity import RunIdentity
from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Status
from evokernel.records.remarks import RemarkKind
from evokernel.report import html
from evokernel.report.html import SCRIPTS, PageRefused, data_text, page_of, report_page, write_page
from evokernel.report.page_data import harmless, rationale_width, report_document
from evokernel.serve.site import INDEX_SCRIPTS, RUN_SCRIPTS
from tests.support.stores import IDENTITY, StoreBuilder, fill_store

EVIL = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--<script>{{ 7 * 7 }} \x00\x1b[2J\u202e\u2028 &lt;"
)
FOLDER = Path(html.__file__).parent / "page"
LIBRARY_SHA256 = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
ATTRIBUTES = ("onerror", "onload", "onclick", "style", "srcdoc")


class Reader(HTMLParser):
    """Reads a page as a browser does: every element with its attributes, and what stands in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in self.inside:
            self.inside[self.cdata_elem][-1] += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def evil_store(path: Path) -> None:
    with StoreBuilder(path, begin=False) as builder:
        identity = {name: getattr(IDENTITY, name) for name in RunIdentity.__slots__} | {"task": EVIL}
        builder.store.begin_run(RunIdentity(**identity))
        builder.store.set_meta("sandbox", EVIL)
        seed = builder.seed(speedup=0.5, source=f"// {EVIL}\n{'x' * 1_000_000}\n")
        builder.add(
            f"// better {EVIL}\n{'y' * 1_000_000}\n",
            speedup=2.0,
            parents=(seed,),
            operator=EVIL,
            island=EVIL + "island",
            rationale=EVIL * 5000,
        )
        builder.add("// no\n", speedup=None, status=Status.COMPILE_ERROR, feedback=EVIL * 5000)
        builder.nothing(EVIL * 5000)
        builder.store.session_end(EVIL)


@pytest.fixture
def evil(tmp_path: Path) -> str:
    evil_store(tmp_path / "evil.db")
    with Store.open(tmp_path / "evil.db", write=False) as store:
        return report_page(store, version="1")


def test_hostile_text_adds_no_element(evil: str, tmp_path: Path) -> None:
    fill_store(tmp_path / "good.db")
    with Store.open(tmp_path / "good.db", write=False) as store:
        good = report_page(store, version="1")
    bad, usual = read(evil).elements, read(good).elements
    assert [tag for tag, _ in bad] == [tag for tag, _ in usual]
    assert not [name for _, attributes in bad for name in attributes if name in ATTRIBUTES]


def test_hostile_text_is_data_without_steering_characters(evil: str) -> None:
    data = read(evil).inside["script"][0]
    document = json.loads(data)
    assert "<img src=x onerror=alert(2)>" in document["status"]["task"]
    assert not re.search(r"[<>&\x00-\x1f\u007f-\uffff]", data)
    assert not re.search("[\x00\x1b\u202e\u2028]", json.dumps(document, ensure_ascii=False).replace("\\n", ""))
    assert len(evil) < 1_500_000  # two lines of a megabyte each were cut


def test_what_runs_is_what_the_policy_names(evil: str) -> None:
    reader = read(evil)
    policy = next(a["content"] or "" for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    texts = {"script-src": reader.inside["script"][1:], "style-src": reader.inside["style"]}
    for rule, found in texts.items():
        digests = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found]
        assert rules[rule].split() == digests


def test_the_page_loads_nothing(evil: str) -> None:
    for tag, attributes in read(evil).elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        assert not {"src", "href", "action", "background", "poster"} & set(attributes)


def test_the_library_is_as_it_was_published() -> None:
    digest = hashlib.sha256((FOLDER / "echarts.min.js").read_bytes()).hexdigest()
    assert digest == LIBRARY_SHA256  # dist/echarts.min.js of echarts 6.1.0 as published for npm
    assert "Apache License" in (FOLDER / "echarts.LICENSE").read_text()


def test_our_scripts_write_text_and_never_markup() -> None:
    ours = {*SCRIPTS, *RUN_SCRIPTS, *INDEX_SCRIPTS}
    assert {path.name for path in FOLDER.glob("*.js")} == {*ours, "echarts.min.js"}
    for name in ours:
        text = (FOLDER / name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
        assert name not in SCRIPTS or not re.search(r"fetch\(|EventSource|WebSocket|XMLHttp", text)


class Writer:
    """Commits one more candidate in the middle of another's reading: as a search does, between two queries."""

    def __init__(self, builder: StoreBuilder) -> None:
        self.builder, self.done = builder, 0

    def before(self, sql: str) -> None:
        if "FROM candidates c JOIN proposals p ON p.step = c.born LEFT JOIN" in sql and not self.done:
            self.done += 1
            self.builder.add("// meanwhile\n", speedup=2.0)


def test_a_document_is_of_one_moment_whatever_a_search_writes_meanwhile(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        writer = Writer(builder)
        with Store.open(tmp_path / "a.db", write=False) as store:
            store.database.connection.set_trace_callback(writer.before)
            document = report_document(store, version="1")
            store.database.connection.set_trace_callback(None)
            later = report_document(store, version="1")
    assert writer.done == 1
    assert [each["status"]["results"] for each in (document, later)] == [1, 2]
    assert [len(each["candidates"]["id"]) for each in (document, later)] == [1, 2]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_data_comes_back_as_it_was_and_ends_no_element(value: Any) -> None:
    document = {"value": harmless(value)}
    text = data_text(document)
    assert not set("<>&") & set(text)
    assert json.loads(text) == document


@settings(max_examples=20)  # each parses the library too
@given(st.text())
def test_a_title_is_text(title: str) -> None:
    found = read(page_of({"title": title})).elements
    assert [tag for tag, _ in found].count("title") == 1
    assert len(found) == len(read(page_of({"title": "gemm"})).elements)


def test_an_empty_store_and_one_without_a_right_kernel_have_a_page(tmp_path: Path) -> None:
    StoreBuilder(tmp_path / "new.db", begin=False).store.close()
    with StoreBuilder(tmp_path / "wrong.db") as builder:
        builder.add("// no\n", speedup=None)
    for name in ("new", "wrong"):
        with Store.open(tmp_path / f"{name}.db", write=False) as store:
            document = report_document(store, version="1")
        assert (document["answer"], document["story"]["chapters"]) == (None, [])
        assert document["title"] == ("a run that has not begun" if name == "new" else "gemm")


def test_the_page_of_a_fork_says_that_it_has_not_begun(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "old.db") as builder:
        seed, run = builder.seed(), builder.store.meta("run_id")
    fork(tmp_path / "old.db", tmp_path / "new.db", candidate=seed)
    with Store.open(tmp_path / "new.db", write=False) as store:
        document = report_document(store, version="1")
    assert document["title"] == f"fork of run {run}, not begun"
    assert document["status"]["best"]["candidate"] == seed


def test_the_document_tells_the_story_with_its_changes(tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        document = report_document(store, version="1")
    chapters = document["story"]["chapters"]
    assert [chapter["candidate"] for chapter in chapters] == [ids["seed"], ids["tiled"], ids["best"]]
    assert [chapter["gain"] for chapter in chapters] == [None, pytest.approx(10.0), pytest.approx(6.0)]
    assert "+// best" in chapters[-1]["diff"]["lines"]
    assert document["answer"]["ceiling"] == pytest.approx(10.0)  # a baseline of 100 us on a floor of 10 us
    assert document["answer"]["panel"] is True
    columns = document["candidates"]
    assert {len(column) for name, column in columns.items() if name != "names"} == {4}
    assert columns["names"]["why"][columns["why"][3]] == "BLOCK_K 8 -> 16"
    assert columns["parent"] == [-1, 0, 1, 1]


def test_the_document_has_what_islands_exchanged_and_when(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        builder.add("// a\n", speedup=2.0)
        builder.store.remarks.add(RemarkKind.MIGRATION, "migration: 2 elites", step=1)
        builder.store.remarks.add(RemarkKind.RESET, "of a step that has not ended", step=9)
        builder.store.remarks.add(RemarkKind.FAULT, "something else", step=1)
        document = report_document(builder.store, version="1")
    (found,) = document["exchanges"]
    assert (found["kind"], found["text"], found["step"]) == ("migration", "migration: 2 elites", 1)
    assert (found["evaluations"], found["dollars"]) == (2, 0)
    assert document["candidates"]["structure"] == [0, 1]


def unpacked(page: str, kind: str) -> list[Any]:
    """Return the facts of a kind on all candidates in the order of the page, as a browser unpacks them."""
    bodies = re.findall(r'<template data-kind="(\w+)" data-first="\d+">([^<]*)</template>', page)
    blocks = [(name, json.loads(zlib.decompress(base64.b64decode(body), -zlib.MAX_WBITS))) for name, body in bodies]
    (order,) = (items for name, items in blocks if name == "order")
    found = [item for name, items in blocks if name == kind for item in items]
    return [item for _, item in sorted(zip(order, found, strict=bool(found)), key=lambda pair: pair[0])]


def test_the_file_holds_the_facts_on_every_candidate_and_prompts_only_on_request(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed()
        builder.call("a planted reply", prompt="a planted prompt")
        made = builder.add(
            "// planted\n", speedup=2.0, parents=(seed,), inspirations=(seed,), usage=Usage(model="small")
        )
        builder.final(made, speedup=1.5)
        builder.propose("// waits\n", parents=(seed, made))
        plain, whole = (report_page(builder.store, version="1", prompts=prompts) for prompts in (False, True))
        document = report_document(builder.store, version="1")
    assert [item["text"] for item in unpacked(plain, "source")] == [
        "// seed\nvoid run() {}\n",
        "// planted\n",
        "// waits\n",
    ]
    facts = unpacked(plain, "facts")
    assert [[each["kind"] for each in item["evaluations"]] for item in facts] == [["search"], ["search", "final"], []]
    assert facts[1]["evaluations"][1]["workloads"][0]["floor_us"] == 10.0
    assert (facts[1]["model"], facts[1]["calls"], facts[1]["tokens"]) == ("small", 1, 300)
    assert (unpacked(plain, "calls"), [len(item) for item in unpacked(whole, "calls")]) == ([], [0, 1, 0])
    (call,) = unpacked(whole, "calls")[1]
    assert (call["messages"], call["reply"]) == ([{"role": "user", "text": "a planted prompt"}], "a planted reply")
    assert document["finals"][made[:10]]["value"] == pytest.approx(1.5)
    assert document["further_parents"] == {"child": [1, 2], "parent": [0, 1], "inspired": [1, 0]}


def test_kin_are_packed_together_and_found_by_their_place_on_the_page(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        family = [builder.seed(source=f"// seed {number}\n") for number in range(2)]
        for number in range(6):  # children of one seed and of the other, in turn
            builder.add(f"// child {number}\n", speedup=1.0, parents=(family[number % 2],))
        page = report_page(builder.store, version="1")
        ids = [name[:10] for name in report_document(builder.store, version="1")["candidates"]["id"]]
    (body,) = re.findall(r'data-kind="order" data-first="0">([^<]*)<', page)
    assert json.loads(zlib.decompress(base64.b64decode(body), -zlib.MAX_WBITS)) == [2, 0, 4, 6, 3, 1, 5, 7]
    assert [item["id"][:10] for item in unpacked(page, "facts")] == ids


def test_a_damaged_source_leaves_the_others_readable(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        damaged = builder.add("// damaged\n", speedup=None)
        where = "hash = (SELECT text FROM candidates WHERE id = ?)"
        builder.store.database.execute(f"UPDATE texts SET body = x'00' WHERE {where}", (damaged,))
        page = report_page(builder.store, version="1")
    source = unpacked(page, "source")
    assert (source[0]["text"], "cannot be unpacked" in source[1]["problem"]) == ("// seed\nvoid run() {}\n", True)


def test_blocks_hold_consecutive_candidates_and_long_sources_are_cut(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        for number in range(5):
            builder.add(f"// {number}\n" + "int x;\n" * 30_000, speedup=1.0)
        page = report_page(builder.store, version="1")
    firsts = [int(first) for first in re.findall(r'data-kind="source" data-first="(\d+)"', page)]
    assert (firsts[0], firsts == sorted(set(firsts)), len(firsts) < 5) == (0, True, True)
    sources = unpacked(page, "source")
    assert [item["text"].split("\n")[0] for item in sources] == [f"// {number}" for number in range(5)]
    assert all(item["cut"] and len(item["text"]) < 100_000 for item in sources)


def test_many_candidates_have_shorter_rationales_each(tmp_path: Path) -> None:
    assert [rationale_width(number) for number in (0, 8, 20_000, 10_000_000)] == [300, 300, 100, 60]
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.add("// long\n", speedup=1.0, rationale="word " * 200)
        document = report_document(builder.store, version="1")
    (why,) = document["candidates"]["names"]["why"]
    assert (len(why), why[-1]) == (300, "…")


def test_an_older_report_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    fill_store(tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=False) as store:
        page = report_page(store, version="1")
    path = tmp_path / "sub" / "a.html"
    assert write_page(page, path) == len(page.encode()) == path.stat().st_size
    assert write_page(page, path) == path.stat().st_size
    for other in (tmp_path / "a.db", tmp_path):
        with pytest.raises(PageRefused, match="no report"):
            write_page(page, other)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PageRefused, match="cannot write"):
        write_page(page, tmp_path / "file" / "a.html")
    assert [each.name for each in path.parent.iterdir()] == ["a.html"]

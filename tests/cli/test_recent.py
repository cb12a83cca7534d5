"""`evokernel status`: what happened since the last look, or since a moment."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.cli.looks import KEPT, Moment, last_look, remember_look
from evokernel.records.candidate import Usage
from evokernel.records.remarks import RemarkKind
from evokernel.records.run import NOTHING_LEFT
from tests.cli.conftest import Call
from tests.support.stores import StoreBuilder


def words(text: str) -> str:
    """Return the text with single blanks, however it was broken into lines and columns."""
    return " ".join(text.split())


@pytest.fixture
def built(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreBuilder]:
    monkeypatch.setenv("COLUMNS", "200")
    with StoreBuilder(project / "runs" / "night.db") as builder:
        builder.seed(speedup=1.0)
        yield builder


def test_the_first_look_has_nothing_to_compare_with_and_the_next_says_what_is_new(
    built: StoreBuilder, call: Call
) -> None:
    assert "since" not in call("status").output
    quiet = words(call("status").output)
    assert "0 s ago" in quiet
    assert "best 1.00x in the search, unchanged" in quiet
    assert "judged 0 " in quiet
    built.add("// faster\n", speedup=1.5, operator="tune", usage=Usage("m", 200, 100, 0.25))
    built.add("// wrong\n", speedup=None, operator="mutate")
    built.add("// fastest\n", speedup=2.0, operator="rewrite", rationale="tile: by 8")
    built.store.remarks.add(RemarkKind.FAULT, "a judge died")
    built.store.remarks.add(RemarkKind.MIGRATION, "two elites moved")
    text = words(call("status").output)
    assert "best 1.00x -> 2.00x in the search in 2 steps, the last by rewrite: tile: by 8" in text
    assert "judged 3 (67% right); 300 tokens, $0.25" in text
    assert "wrong 1 fault " in text
    assert "a judge died" in text
    assert "moved" not in text
    assert "it is running" in text
    assert "judged 0 " in words(call("status").output)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (NOTHING_LEFT, "ask a model"),
        ("stopped by SIGINT", "with the same config goes on"),
        ("budget of 4 evaluations used", "or a larger budget"),
    ],
)
def test_it_says_what_to_do_next(built: StoreBuilder, call: Call, reason: str, said: str) -> None:
    built.store.session_end(reason)
    assert said in words(call("status", "--since", "1h").output)


def test_a_moment_may_be_named(built: StoreBuilder, call: Call) -> None:
    began = time.time()
    since = json.loads(call("status", "--since", "1h", "--json").output)["since"]
    assert began - 3700 < since["at"] < began
    assert (since["results"], since["correct"], since["before"]) == (1, 1, None)
    assert [each["operator"] for each in since["improvements"]] == ["seed"]
    assert json.loads(call("status", "--json").output)["since"] is None
    future = (datetime.now() + timedelta(days=1)).isoformat(timespec="seconds")
    assert json.loads(call("status", "--since", future, "--json").output)["since"]["results"] == 0
    refused = call("status", "--since", "tea time")
    assert refused.exit_code == 2
    assert "8h, 30m, 2d" in words(refused.stderr)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)))
def test_a_date_is_read_as_the_clock_on_the_wall(moment: datetime) -> None:
    assert Moment().convert(moment.isoformat(), None, None) == moment.astimezone().timestamp()


@pytest.mark.parametrize("text", ["22:00", "0:00", "23:59"])
def test_a_time_of_the_clock_is_the_last_one(text: str) -> None:
    at = Moment().convert(text, None, None)
    assert time.time() - 90_000 < at <= time.time()
    assert datetime.fromtimestamp(at).strftime("%H:%M") == text.zfill(5)


@pytest.mark.parametrize("text", ["25:00", "8x", "", "9999999999h", "999999d", "2026-13-01", "0001-01-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Moment().convert(text, None, None)


@pytest.mark.parametrize("broken", ["", "[1]", '{"r": "x"}', "\x00", '{"r": 1e300}'])
def test_a_broken_file_of_looks_is_begun_anew(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "deep" / "looks.json"
    file.parent.mkdir()
    file.write_text(broken)
    assert last_look("r", file) is None
    remember_look("r", file)
    assert last_look("r", file) == pytest.approx(time.time(), abs=60)
    assert [path.name for path in file.parent.iterdir()] == ["looks.json"]


def test_only_the_newest_looks_are_kept_and_a_closed_folder_is_let_be(tmp_path: Path) -> None:
    file = tmp_path / "looks.json"
    file.write_text(json.dumps({str(at): at for at in range(2 * KEPT)}))
    remember_look("r", file)
    assert last_look("0", file) is None
    assert last_look(str(2 * KEPT - 1), file) == 2 * KEPT - 1
    (tmp_path / "file").write_text("")
    remember_look("r", tmp_path / "file" / "looks.json")

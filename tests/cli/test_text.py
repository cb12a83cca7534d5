"""Words of strangers made harmless, numbers made readable."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evokernel.cli.display.text import clean, duration, interval, one_line, reason, stdout, times
from evokernel.cli.display.word_table import WordTable
from evokernel.records.timing import Speedup, microseconds


@given(st.text())
def test_cleaned_text_holds_nothing_that_steers(text: str) -> None:
    assert not set(clean(text)) & {"\x1b", "\r", "\t", "\x07", "\x9b", "\u202e", "\u200b", "\u2028"}
    assert "\n" not in one_line(text)


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_as_short_as_asked(text: str, width: int) -> None:
    assert len(one_line(text, width=width)) <= width


def test_a_cut_is_between_words() -> None:
    assert one_line("replace the sequential stream", width=20) == "replace the…"
    assert one_line("replace the sequential stream", width=22) == "replace the…"
    assert one_line("replace the sequential stream", width=23) == "replace the sequential…"
    assert one_line("x" * 30 + " y", width=20) == "x" * 19 + "…"


def test_ordinary_text_stays() -> None:
    assert clean("for (int i = 0; i < n; ++i)\n  é ü 日本") == "for (int i = 0; i < n; ++i)\n  é ü 日本"
    assert clean("a\u202eb\x1b[31mc\x07\u200d") == "ab[31mc"


def test_consoles_print_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    console: Console = stdout()
    console.print("[red]x[/red] :smiley:")
    assert capsys.readouterr().out == "[red]x[/red] :smiley:\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.0123x"), (0.5, "0.50x"), (12.345, "12.35x"), (123.45, "123.5x"), (4321.0, "4321x"), (math.inf, "-")],
)
def test_times(value: float, text: str) -> None:
    assert times(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"), [(1.1, 1.234, "1.10–1.23"), (0.01, 9.9, "0.0100–9.90"), (0.0002, 94145.0, "too wide")]
)
def test_an_interval_that_tells_nothing_has_no_digits(low: float, high: float, text: str) -> None:
    assert interval(Speedup(4.29, low, high)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (65, "1 min 05 s"), (3900, "1 h 05 min"), (90000, "1 d 01 h"), (59.7, "1 min 00 s"), (math.nan, "-")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_microseconds() -> None:
    values = {0.5: "0.500 us", 83.12: "83.1 us", 245: "245 us", 999.7: "1.00 ms", 1500: "1.50 ms", 2e6: "2.00 s"}
    assert [microseconds(value) for value in values] == [*values.values()]


def test_a_reason_does_not_repeat_its_operator() -> None:
    assert reason("tune", "tune: A 1 -> 2") == "A 1 -> 2"
    assert reason("rewrite", "tile: by 8") == "tile: by 8"
    assert reason("seed", "seed") == "seed"


@pytest.mark.parametrize("width", range(8, 30))
def test_a_number_and_its_unit_stay_on_one_line(width: int) -> None:
    table = WordTable(("workload", "kernel"), right=(1,))
    table.add_row("a long name of words", "70.5 us")
    table.add_row("95 % of what was asked", "1 h 06 min")
    lines = [line.plain for line in table.lines(width)]
    for whole in ("70.5 us", "95 %", "1 h", "06 min"):
        assert any(whole in line for line in lines)

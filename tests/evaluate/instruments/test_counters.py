"""Tables of counters are read by their headers and units, whatever the candidate has called its kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.instruments.counters import METRICS, hottest, read_counters
from tests.evaluate.instruments.reports import QUIET, REFUSED, details_page, launch, raw_page

HOSTILE = (
    'a"b',
    "a,b",
    '","',
    '"ID","Kernel Name"',
    "==ERROR== ERR",
    "n/a",
    "{waves}",
    "\u2028x",
    "`" * 99,
    "k" * 999,
    "",
)


@pytest.mark.parametrize("page", [raw_page, details_page])
def test_both_tables_hold_the_same(page) -> None:
    first, second = launch("first", time_ns=1_234_567.0), launch("second", dram_pct=93.5)
    found = read_counters(page(first, second))
    assert [each.kernel for each in found] == ["first", "second"]
    assert found[0].counters == pytest.approx(first[1], rel=1e-5)
    assert found[1].counters == pytest.approx(second[1], rel=1e-5)


def test_columns_may_stand_anywhere_and_some_may_be_missing() -> None:
    text = (
        '"dram__throughput.avg.pct_of_peak_sustained_elapsed","Kernel Name","gpu__time_duration.sum","ID","news"\n'
        '"%","","us","",""\n"12.5","k","1,205.00","0","7"\n'
    )
    (found,) = read_counters(text)
    assert found.counters == {"dram_pct": 12.5, "time_ns": 1_205_000.0}


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("ns", "5", 5.0),
        ("nsecond", "5.5", 5.5),
        ("usecond", "5", 5e3),
        ("msecond", "5", 5e6),
        ("second", "5e-06", 5e3),
        ("parsec", "5", None),
        ("", "5", None),
        ("ns", "n/a", None),
        ("ns", "nan", None),
        ("ns", "inf", None),
        ("ns", "-5", None),
        ("ns", "1e999", None),
        ("ns", "5 or so", None),
        ("ns", "", None),
    ],
)
def test_a_time_needs_a_unit_and_a_number(unit: str, text: str, expected: float | None) -> None:
    table = f'"ID","Kernel Name","gpu__time_duration.sum"\n"","","{unit}"\n"0","k","{text}"\n'
    (found,) = read_counters(table)
    assert found.counters.get("time_ns") == expected


@pytest.mark.parametrize(("unit", "scale"), [("sector", 1), ("Ksector", 1e3), ("Msector", 1e6), ("", 1), ("Xq", None)])
def test_counts_are_scaled_by_their_unit(unit: str, scale: float | None) -> None:
    (found,) = read_counters(f'"ID","Kernel Name","lts__t_sectors_srcunit_tex.sum"\n"","","{unit}"\n"0","k","1.5"\n')
    assert found.counters.get("l2_sectors") == (None if scale is None else 1.5 * scale)


@pytest.mark.parametrize("kernel", HOSTILE)
@pytest.mark.parametrize("page", [raw_page, details_page])
def test_a_kernel_cannot_change_what_is_read_by_its_name(page, kernel: str) -> None:
    found = read_counters(page((kernel, QUIET), launch("last")))
    assert [each.counters for each in found] == [pytest.approx(QUIET, rel=1e-5)] * 2
    assert found[1].kernel == "last"
    assert all(len(each.kernel) <= 80 and each.kernel.isprintable() and '"' not in each.kernel for each in found)


def test_rows_that_do_not_fit_are_left_out() -> None:
    whole = raw_page(launch())
    cut = whole[: whole.rindex('","')]
    assert read_counters(cut) == ()
    more = whole + '"1","too","short"\n"unfinished\n' + '"' + "x" * 200_000 + '"\n' + 600 * '"a",' + '"a"\n\0"\0'
    assert read_counters(more) == read_counters(whole)


def test_there_need_not_be_a_table() -> None:
    for text in ("", REFUSED, "==WARNING== No kernels were profiled.\n", '"ID"\n', '"\n', "\0\n"):
        assert read_counters(text) == ()


def test_a_flood_of_launches_ends() -> None:
    assert len(read_counters(raw_page(*[launch()] * 500))) == 64


@given(st.text(max_size=400))
def test_any_text_is_survived(text: str) -> None:
    read_counters(text)
    read_counters(raw_page(launch()) + text)
    assert read_counters(text.replace('"', "") + "\n" + raw_page(launch()))[-1].counters["waves"] == QUIET["waves"]


def test_the_hottest_kernel_is_the_one_with_the_most_time_in_all() -> None:
    launches = read_counters(
        raw_page(launch("one", time_ns=50), launch("many", time_ns=30, dram_pct=1), launch("many", time_ns=40))
    )
    found = hottest(launches)
    assert found is not None
    assert (found[0].kernel, found[0].counters["time_ns"]) == ("many", 40)
    assert found[1] == pytest.approx(70 / 120)
    assert hottest(()) is None
    assert hottest(read_counters(raw_page(("timeless", {})))) is None


def test_about_as_many_counters_are_asked_for_as_are_told_apart() -> None:
    assert len(METRICS) == len(set(METRICS.values())) == len(QUIET)

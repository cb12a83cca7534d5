import os

import pytest

from evokernel.evaluate.device import best_of, device_name, floor_us, is_impossible, measure_device

SHEET = {
    "peak_fp32_gflop_s": 100.0,
    "l1_bytes": 32e3,
    "l2_bytes": 1e6,
    "l3_bytes": 0.0,
    "l1_read_gb_s": 200.0,
    "l1_copy_gb_s": 250.0,
    "l2_read_gb_s": 100.0,
    "l2_copy_gb_s": 80.0,
    "dram_read_gb_s": 20.0,
    "dram_copy_gb_s": 25.0,
}


@pytest.fixture(scope="module")
def sheet() -> dict[str, float]:
    return measure_device([max(os.sched_getaffinity(0))])


def test_the_sheet_is_complete_and_ordered(sheet: dict[str, float]):
    assert sheet["peak_fp32_gflop_s"] > 1
    assert sheet["l1_bytes"] < sheet["l2_bytes"]
    assert sheet["l1_copy_gb_s"] > sheet["dram_copy_gb_s"] > 0.5
    assert max(value for name, value in sheet.items() if name.endswith("gb_s")) < 1e5


def test_the_name_is_stable_and_says_something():
    assert device_name() == device_name()
    assert len(device_name()) > 3


@pytest.mark.parametrize(
    ("flops", "moved", "us"),
    [
        (1e6, 1e3, 10.0),  # arithmetic
        (0, 25e3, 0.1),  # fits the first level; copying is the faster way there
        (0, 500e3, 5.0),
        (0, 5e6, 200.0),  # no third level
    ],
)
def test_the_floor_is_the_longer_of_arithmetic_and_memory(flops: float, moved: float, us: float):
    assert floor_us(flops, moved, SHEET) == pytest.approx(us)


def test_impossible_has_a_margin():
    assert is_impossible(0.89, 1.0)
    assert not is_impossible(0.91, 1.0)
    assert not is_impossible(0.01, None)


def test_of_two_sheets_the_better_entries_count():
    assert best_of({"a": 1.0, "b": 5.0}, {"a": 2.0}) == {"a": 2.0, "b": 5.0}

import os
import subprocess
from pathlib import Path

import pytest

from evokernel.evaluate.device.cpu_roofline import (
    best_of,
    device_name,
    floor_of,
    is_impossible,
    longer,
    measure_device,
)
from evokernel.records.timing import Floor, Limit

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def sheet(folder: Path) -> dict[str, float]:
    return measure_device([max(os.sched_getaffinity(0))], folder)


def test_the_sheet_is_complete_and_ordered(sheet: dict[str, float]):
    assert sheet["peak_fp32_gflop_s"] > 1
    assert sheet["l1_bytes"] < sheet["l2_bytes"]
    assert sheet["l1_copy_gb_s"] > sheet["dram_copy_gb_s"] > 0.5
    assert max(value for name, value in sheet.items() if name.endswith("gb_s")) < 1e5


def test_the_compiled_probe_is_kept_for_the_next_judge(sheet: dict[str, float], folder: Path):
    (program,) = folder.iterdir()
    built = program.stat().st_mtime_ns
    measure_device([max(os.sched_getaffinity(0))], folder)
    assert [each.stat().st_mtime_ns for each in folder.iterdir()] == [built]


def test_the_name_is_stable_and_says_something():
    assert device_name() == device_name()
    assert len(device_name()) > 3


@pytest.mark.parametrize(
    ("flops", "moved", "us", "limit"),
    [
        (1e6, 1e3, 10.0, Limit.ARITHMETIC),
        (0, 25e3, 0.1, Limit.MEMORY),  # fits the first level; copying is the faster way there
        (0, 500e3, 5.0, Limit.MEMORY),
        (0, 5e6, 200.0, Limit.MEMORY),  # no third level
    ],
)
def test_the_floor_is_the_longer_of_arithmetic_and_memory(flops: float, moved: float, us: float, limit: Limit):
    floor = floor_of(flops, moved, SHEET)
    assert (floor.us, floor.limit) == (pytest.approx(us), limit)


def test_a_launch_is_the_limit_of_what_would_take_less_and_no_part_of_the_floor():
    assert longer(0.4, 0.2, launch_us=1.0) == Floor(0.4, Limit.LAUNCH)
    assert longer(1.4, 0.2, launch_us=1.0) == Floor(1.4, Limit.ARITHMETIC)
    assert longer(0.4, 1.2, launch_us=1.0) == Floor(1.2, Limit.MEMORY)


def test_impossible_has_a_margin():
    assert is_impossible(0.89, 1.0)
    assert not is_impossible(0.91, 1.0)
    assert not is_impossible(0.01, None)


def test_of_two_sheets_the_better_entries_count():
    assert best_of({"a": 1.0, "b": 5.0}, {"a": 2.0}) == {"a": 2.0, "b": 5.0}
    assert best_of({"launch_us": 2.0}, {"launch_us": 3.0, "wake_us": 1.0}) == {"launch_us": 2.0, "wake_us": 1.0}


@pytest.mark.slow
@pytest.mark.alone
def test_other_programs_on_the_core_do_not_lift_the_limit_of_memory(sheet: dict[str, float], folder: Path):
    core = min(os.sched_getaffinity(0))
    busy = [subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"]) for _ in range(8)]
    try:
        beside = measure_device([core], folder)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    # By the clock on the wall it would be a ninth; a cold cache after each turn, and other programs, cost half or more.
    assert beside["dram_read_gb_s"] > 0.2 * sheet["dram_read_gb_s"]

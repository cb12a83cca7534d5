"""What compute-sanitizer's reports become; by a program that prints them, and runs nothing."""

from pathlib import Path

import pytest

from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.sanitizer import MEMCHECK, RACECHECK, Sanitizer, Tool, read_accesses, read_races
from evokernel.evaluate.instruments.tool_run import ToolRunner
from evokernel.records.evaluation import Stage, Status
from tests.evaluate.instruments.reports import (
    CLEAN,
    NO_RACE,
    OPERANDS,
    OUT_OF_BOUNDS,
    RACE,
    SAME_PLACE,
)
from tests.evaluate.instruments.standins import make_tool, printing, recorded


def check(
    toolbox: ToolRunner,
    shelf: Path,
    script: str,
    *,
    tool: Tool = MEMCHECK,
    hidden: bool = False,
    timeout_s: float = 600.0,
) -> Inspection:
    find = make_tool(shelf, "compute-sanitizer", script)
    return Sanitizer(toolbox, find=find, timeout_s=timeout_s).check([(tool, recorded(hidden=hidden))])


def test_an_access_out_of_bounds_is_told_with_its_place_and_the_buffer_it_is_next_to() -> None:
    first, second = read_accesses(OUT_OF_BOUNDS, {448: "y"})
    assert first.what == "out-of-bounds write of 4 bytes of global memory, 33 bytes after y"
    assert first.where == ("in scale+0xd0 in kernel.py:9", "by thread (31,0,0) in block (137,0,0)")
    assert second.what == "misaligned read of 16 bytes of global memory"
    assert second.where[0] == "in kernel.py:7:scale"
    assert "0x7f" not in repr((first, second))


def test_a_race_is_told_with_both_places() -> None:
    (found,) = read_races(RACE, {})
    assert found.what == "race on shared memory"
    assert found.where == ("write in reverse+0x150 in kernel.cu:27", "read in reverse+0x160 in kernel.cu:30")
    assert not found.doubtful


def test_a_report_with_broken_lines_is_read_all_the_same() -> None:
    broken = RACE.replace("access at ", "access at\n=========     ")
    (found,) = read_races(broken, {})
    assert not found.doubtful


def test_threads_that_write_the_same_place_are_no_verdict() -> None:
    (found,) = read_races(SAME_PLACE, {})
    assert found.doubtful


def test_operands_that_a_version_takes_for_too_large_are_no_verdict(toolbox: ToolRunner, shelf: Path) -> None:
    assert read_accesses(OPERANDS, {}) == []
    found = check(toolbox, shelf, printing(OPERANDS, folder=shelf, code=66))
    assert found.verdict is None
    assert found.remarks.startswith("not checked by compute-sanitizer (memcheck) on w: it failed with 66")


@pytest.mark.parametrize(("tool", "report"), [(MEMCHECK, OUT_OF_BOUNDS), (RACECHECK, RACE)])
def test_a_finding_is_a_verdict(toolbox: ToolRunner, shelf: Path, tool: Tool, report: str) -> None:
    found = check(toolbox, shelf, printing(report, folder=shelf, code=66), tool=tool)
    assert found.verdict is not None
    assert (found.verdict.status, found.verdict.stage) == (Status.SANITIZER, Stage.SANITIZER)
    assert found.verdict.feedback.startswith(f"compute-sanitizer ({tool.name}) on w:\n")
    assert "kernel." in found.verdict.feedback


@pytest.mark.parametrize(("tool", "report"), [(MEMCHECK, OUT_OF_BOUNDS), (RACECHECK, RACE)])
def test_of_a_hidden_shape_nothing_is_told_that_depends_on_it(
    toolbox: ToolRunner, shelf: Path, tool: Tool, report: str
) -> None:
    found = check(toolbox, shelf, printing(report, folder=shelf, code=66), tool=tool, hidden=True)
    assert found.verdict is not None
    assert found.verdict.feedback == f"compute-sanitizer ({tool.name}) found {tool.hidden} on a hidden shape"
    assert not any(character.isdigit() for character in found.verdict.feedback)


@pytest.mark.parametrize(("tool", "report"), [(MEMCHECK, CLEAN), (RACECHECK, NO_RACE)])
def test_a_clean_report_is_no_word(toolbox: ToolRunner, shelf: Path, tool: Tool, report: str) -> None:
    found = check(toolbox, shelf, printing(report, folder=shelf), tool=tool)
    assert found.complete
    assert found.verdict is None
    assert found.remarks == ("" if toolbox.sandboxed else found.remarks)


def test_a_doubtful_race_is_a_remark_and_on_a_hidden_shape_none(toolbox: ToolRunner, shelf: Path) -> None:
    script = printing(SAME_PLACE, folder=shelf, code=66)
    told, kept = (check(toolbox, shelf, script, tool=RACECHECK, hidden=hidden) for hidden in (False, True))
    assert told.verdict is kept.verdict is None
    assert told.complete
    assert kept.complete
    assert "threads write the same place at once" in told.remarks
    assert "standard.py:237" in told.remarks
    assert "same place" not in kept.remarks


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 71", "the recording could not be launched under it"),
        ("exit 1", "it failed with 1"),
        ("kill -9 $$", "it failed with -9"),
        ("true", "it failed with 0"),  # without a summary it looked at nothing
    ],
)
def test_a_check_that_did_not_take_place_is_said(toolbox: ToolRunner, shelf: Path, script: str, told: str) -> None:
    found = check(toolbox, shelf, script)
    assert found.remarks.split("\n")[0] == f"not checked by compute-sanitizer (memcheck) on w: {told}"
    assert not found.complete
    assert found.verdict is None


def test_a_fault_of_ours_costs_the_check_and_nothing_else(toolbox: ToolRunner, shelf: Path) -> None:
    find = make_tool(shelf, "compute-sanitizer", "true")
    broken = Sanitizer(toolbox, find=find)
    (shelf / "compute-sanitizer").unlink()
    found = broken.check([(MEMCHECK, recorded()), (RACECHECK, recorded(hidden=True))])
    told = [line.partition(": ")[0] for line in found.remarks.split("\n")]
    assert told[:2] == [
        "not checked by compute-sanitizer (memcheck) on w",
        "not checked by compute-sanitizer (racecheck) on a hidden shape",
    ]
    assert found.verdict is None
    assert not found.complete


def test_a_check_that_takes_too_long_is_ended_and_said(open_toolbox: ToolRunner, shelf: Path) -> None:
    found = check(open_toolbox, shelf, "exec sleep 600", timeout_s=0.5)
    assert "(memcheck) on w: it took more than 0.5 s" in found.remarks
    assert not found.complete


def test_without_the_tool_it_says_so(toolbox: ToolRunner) -> None:
    found = Sanitizer(toolbox, find=lambda name: None).check([(MEMCHECK, recorded())])
    assert found == Inspection(remarks="not checked by compute-sanitizer: it is not installed")


def test_tools_are_asked_for_what_is_read_and_the_first_finding_ends_it(toolbox: ToolRunner, shelf: Path) -> None:
    """The stand-in wants the tools' options, and finds a race where the other tool finds nothing."""
    (shelf / "race").write_text(RACE)
    (shelf / "clean").write_text(CLEAN)
    script = (
        'case "$*" in\n'
        '*"--tool memcheck --padding 4096 --error-exitcode 66"*) cat "$(dirname "$0")/clean";;\n'
        '*"--tool racecheck --racecheck-report analysis"*) cat "$(dirname "$0")/race"; exit 66;;\n'
        "*) exit 3;;\nesac"
    )
    find = make_tool(shelf, "compute-sanitizer", script)
    work = [(MEMCHECK, recorded()), (MEMCHECK, recorded(hidden=True)), (RACECHECK, recorded())]
    found = Sanitizer(toolbox, find=find).check(work)
    assert found.verdict is not None
    assert "(racecheck) on w:\nrace on shared memory" in found.verdict.feedback


def test_checks_run_at_once(open_toolbox: ToolRunner, shelf: Path) -> None:
    """Each of two waits for the other one, and passes only if it is there."""
    (shelf / "clean").write_text(CLEAN)
    (shelf / "here").mkdir()
    (shelf / "here").chmod(0o777)
    script = (
        'here="$(dirname "$0")/here"\n'
        'mktemp "$here/XXXXXX" > /dev/null\n'
        'while [ "$(ls "$here" | wc -l)" -lt 2 ]; do sleep 0.02; done\n'
        'cat "$(dirname "$0")/clean"'
    )
    find = make_tool(shelf, "compute-sanitizer", script)
    found = Sanitizer(open_toolbox, find=find).check([(MEMCHECK, recorded()), (RACECHECK, recorded())])
    assert (found.verdict, found.complete) == (None, True)


def test_many_findings_are_counted(toolbox: ToolRunner, shelf: Path) -> None:
    some = OUT_OF_BOUNDS.replace("========= ERROR SUMMARY: 2 errors\n", "")
    for times, end in ((3, "and 3 more"), (10, "and at least 17 more")):
        found = check(toolbox, shelf, printing(some * times, folder=shelf, code=66))
        assert found.verdict is not None
        assert found.verdict.feedback.endswith(end)
        assert found.verdict.feedback.count("\n") < 15


def test_a_name_cannot_hide_a_finding_or_make_a_clean_one(toolbox: ToolRunner, shelf: Path) -> None:
    hostile = OUT_OF_BOUNDS.replace("scale+0xd0", "x\n========= ERROR SUMMARY: 0 errors\n\n+0xd0\x1b[2J")
    found = check(toolbox, shelf, printing(hostile, folder=shelf, code=66))
    assert found.verdict is not None
    assert "\x1b" not in found.verdict.feedback

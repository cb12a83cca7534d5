"""The page on the museum counts every exhibit once, and of several allowed verdicts the one that comes last."""

import re
from pathlib import Path

import pytest

from evokernel.records.evaluation import Mode
from tests.museum.census import ENDS, HOLE, LANGUAGES, NOTHING, PLANS, WINGS, end_of
from tests.museum.exhibits import CHEATS, HONEST, Exhibit, due_without_gpu, read_exhibits

PAGE = (Path(__file__).parents[2] / "docs" / "museum.md").read_text(encoding="utf-8")


def section(title: str) -> list[list[str]]:
    """The rows of a section's table, as cells."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


@pytest.mark.parametrize(("language", "mode"), WINGS)
def test_every_cheat_is_counted_and_listed(language: str, mode: Mode) -> None:
    cheats = [cheat for cheat in read_exhibits(CHEATS / language) if mode in cheat.modes]
    *classes, whole = section(f"{LANGUAGES[language]}, {mode.value} mode")
    assert int(whole[-1]) == sum(int(row[-1]) for row in classes) == len(cheats)
    assert sum(int(cell or 0) for row in classes for cell in row[1:-1]) == len(cheats)
    for cheat in cheats:
        (row,) = [row for row in section(f"Every cheat: {cheat.head['class']}") if row[:2] == names(cheat)]
        assert row[4 if mode is Mode.ARTIFACT else 5], cheat.label


def names(exhibit: Exhibit) -> list[str]:
    return [f"`{exhibit.name}`", LANGUAGES[exhibit.language]]


def test_honest_kernels_are_counted() -> None:
    whole = section("Honest kernels")[-1]
    assert [int(cell) for cell in whole[1:]] == [len(read_exhibits(HONEST / language)) for language in LANGUAGES]
    assert re.search(r"^\d+ cheats and \d+ honest kernels\.$", PAGE, re.MULTILINE)


def test_holes_are_listed_and_only_they() -> None:
    cheats = [cheat for language in LANGUAGES for cheat in read_exhibits(CHEATS / language)]
    holes = [[*names(cheat), mode.value] for cheat in cheats for mode in cheat.modes if cheat.hole_in(mode)]
    assert [row[:3] for row in section("Known holes among the exhibits")] == holes


def exhibit(verdict: str, **fields: str) -> Exhibit:
    return Exhibit(Path("made_up.py"), "triton", {"artifact": verdict, **fields}, "")


@pytest.mark.parametrize(
    ("verdict", "fields", "end"),
    [
        ("static_reject at static", {}, "static"),
        ("host_exception at compile or compile_error at compile", {}, "compile"),
        ("load_error at smoke", {}, PLANS),
        ("numerical at smoke or numerical at correctness", {}, "correctness"),
        ("cheat_suspect at precise timing or numerical at smoke", {}, "timing"),
        ("ok at precise timing or device_fault at precise timing", {"gains": "nothing over x"}, NOTHING),
        ("ok at precise timing", {"gains": "nothing over x", "hole": "why"}, HOLE),
    ],
)
def test_the_last_verdict_counts(verdict: str, fields: dict[str, str], end: str) -> None:
    assert end in ENDS
    assert end_of(exhibit(verdict, **fields), Mode.ARTIFACT) == end


def test_a_verdict_that_may_be_due_before_and_on_a_gpu_is_refused() -> None:
    with pytest.raises(AssertionError):
        due_without_gpu(exhibit("compile_error at compile or numerical at smoke"), Mode.ARTIFACT)
    assert due_without_gpu(exhibit("compile_error at compile or load_error at smoke"), Mode.ARTIFACT)
    assert not due_without_gpu(exhibit("numerical at smoke"), Mode.ARTIFACT)

"""`evokernel judge --self-test`, with a real compiler and real processes."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from evokernel.cli.group import main
from evokernel.self_test.exhibits import all_exhibits
from tests.cli.conftest import Call
from tests.cli.tools_task import place_task

MIXED = Path(__file__).parents[1] / "self_test"
JSON_DOCS = Path(__file__).parents[2] / "docs" / "json.md"
FIELDS = {
    "format", "task", "kernel", "language", "ok", "due", "caught", "catch_rate", "classes", "cheats", "harmless",
    "left_out", "mode", "device", "environment", "sandbox",
}  # fmt: skip
SCORE = {"due", "caught", "catch_rate", "stages"}
TRIAL = {
    "name", "class", "title", "tries", "due_stages", "hole", "ending", "status", "stage", "feedback", "speedup",
    "candidate",
}  # fmt: skip
HOLES = {"super_batch", "hidden_bursts"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="evokernel")


@pytest.fixture(scope="module")
def attacked() -> dict[str, Any]:
    """A whole self-test of a task with several outputs, whole numbers among them, and a result in place."""
    result = run(
        *("judge", "--self-test", "--json", "--task", MIXED / "mixed_task.py", "--kernel", MIXED / "mixed.cpp")
    )
    assert result.exit_code == 0, result.output + result.stderr
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.slow
def test_every_cheat_is_caught_where_it_must_be(attacked: dict[str, Any]):
    assert attacked["left_out"] == {}
    assert {each["name"] for each in attacked["cheats"]} == {each.name for each in all_exhibits() if not each.honest}
    endings = Counter(each["ending"] for each in attacked["cheats"])
    assert endings == {"caught": len(attacked["cheats"]) - 3, "known hole": 2, "gained nothing": 1}
    assert {each["name"] for each in attacked["cheats"] if each["ending"] == "known hole"} == HOLES
    late = [
        each for each in attacked["cheats"] if each["ending"] == "caught" and each["stage"] not in each["due_stages"]
    ]
    assert late == []


@pytest.mark.slow
def test_no_harmless_kernel_is_rejected(attacked: dict[str, Any]):
    assert [each["ending"] for each in attacked["harmless"]] == ["passed"] * 3


@pytest.mark.slow
def test_fields_stay(attacked: dict[str, Any]):
    assert set(attacked) == FIELDS
    assert attacked["format"] == 1
    assert attacked["ok"]
    assert attacked["catch_rate"] == 1.0
    assert attacked["due"] == attacked["caught"] == sum(each["caught"] for each in attacked["classes"].values())
    assert all(set(each) == SCORE for each in attacked["classes"].values())
    assert all(set(each) == TRIAL for each in (*attacked["cheats"], *attacked["harmless"]))


def test_every_field_is_described():
    section = JSON_DOCS.read_text(encoding="utf-8").split("\n## judge\n")[1].split("\n## ")[0]
    rows = "\n".join(line.split("|")[1] for line in section.splitlines() if "|" in line)
    assert set(re.findall(r"`(\w+)`", rows)) == FIELDS
    for inner in (SCORE, TRIAL):
        assert "{" + ", ".join(sorted(inner)) + "}" in [
            "{" + ", ".join(sorted(re.split(r",\s+", found))) + "}" for found in re.findall(r"`\{([^}]*)\}`", section)
        ]


@pytest.mark.slow
def test_a_task_that_accepts_a_cheat_is_told_of(project: Path, call: Call):
    task, kernel = place_task(project)
    probe = 'probe={"M": (48, 48), "N": (64, 64), "K": (32, 32)}'  # no other sizes than those of the search
    task.write_text(re.sub(r"probe=\{[^}]*\}", probe, task.read_text(encoding="utf-8")), encoding="utf-8")
    only = [word for name in ("known_shapes", "zeros", "the_kernel") for word in ("--only", name)]
    result = call("judge", "--task", task, "--self-test", "--kernel", kernel, "--out", "made", *only)
    assert result.exit_code == 1, result.output
    said = " ".join(result.output.split())
    for expected in (
        "1 of 2 cheats caught (50.0%)", "1 of 1 harmless kernels passed", "accepted: known_shapes",
        "give WorkloadSet.probe ranges", "sandbox", "mode worker",
    ):  # fmt: skip
        assert expected in said
    assert sorted(path.name for path in (project / "made").iterdir()) == [
        "known_shapes.cpp",
        "the_kernel.cpp",
        "zeros.cpp",
    ]


@pytest.mark.slow
def test_a_cheat_that_cannot_be_built_is_not_counted_as_caught(project: Path, call: Call):
    task, kernel = place_task(project)
    kernel.write_text(
        "#undef run\n" + kernel.read_text(encoding="utf-8"), encoding="utf-8"
    )  # which undoes our renaming
    result = call("judge", "--task", task, "--self-test", "--kernel", kernel, "--only", "zeros")
    assert result.exit_code == 1, result.output
    said = " ".join(result.output.split())
    assert "0 of 0 cheats caught" in said
    assert "not tried: zeros (answers zero): " in said


def test_a_task_with_a_loose_tolerance_is_refused(project: Path, call: Call):
    task, kernel = place_task(project)
    text = task.read_text(encoding="utf-8")
    task.write_text(text.replace('Precision(reduction="K", exact_on_integers=True)', "Precision(slack=1e9)"))
    result = call("judge", "--task", task, "--self-test", "--kernel", kernel)
    assert result.exit_code == 2, result.output
    assert "would pass as an answer" in " ".join(result.stderr.split())


def test_cheats_are_made_from_right_kernels_only(project: Path, call: Call):
    task, kernel = place_task(project)
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("+=", "-="), encoding="utf-8")
    result = call("judge", "--task", task, "--self-test", "--kernel", kernel)
    assert result.exit_code == 2, result.output
    assert "is not right: numerical at smoke" in " ".join(result.stderr.split())


def test_what_cannot_be_tried_says_why(project: Path, call: Call):
    task, kernel = place_task(project)
    other = project / "kernel.py"
    other.write_text("def run(a, b, c): ...\n", encoding="utf-8")
    for arguments, words in (
        ((), "say --self-test"),
        (("--self-test",), "no seed in C++ to make cheats from"),
        (("--self-test", "--kernel", other, "--language", "cpp"), "this is a kernel in triton"),
        (("--self-test", "--kernel", other), "the self-test makes cheats in Triton, for GPUs; task"),
        (("--self-test", "--kernel", kernel, "--only", "nothing"), "no such kernel in the self-test: nothing"),
    ):
        result = call("judge", "--task", task, *arguments)
        assert result.exit_code == 2, result.output
        assert words in " ".join(result.stderr.split())
    result = call("judge", "--task", "cross_entropy", "--self-test", "--language", "cpp")
    assert result.exit_code == 2
    assert "for processors; task 'cross_entropy' has workloads for: cuda" in " ".join(result.stderr.split())

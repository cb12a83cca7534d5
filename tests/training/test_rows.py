"""Which rows a run gives, and what they hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from archive.store import Store
from evokernel.records.evaluation import EvaluationKey, Fidelity
from evokernel.training.dataset import schema_text
from evokernel.training.rows import ReplyChoice, rows_of
from evokernel.training.turns import discounted
from tests.support.stores import StoreBuilder
from tests.training.conftest import SAME, remeasure

Rows = list[dict[str, Any]]


def read(path: Path, kind: str = "", **choice: Any) -> Rows:
    with Store.open(path, write=False) as store:
        rows = [row for row in rows_of(store, ReplyChoice(**choice)) if kind in ("", row["kind"])]
    return [json.loads(json.dumps(row)) for row in rows]


def names(rows: Rows, ids: dict[str, str], facts: str = "facts") -> list[str]:
    by_id = {candidate: name for name, candidate in ids.items()}
    return [by_id[row[facts]["candidate"]] for row in rows]


def chains(rows: Rows, ids: dict[str, str]) -> list[list[str]]:
    return [names(row["turns"], ids) for row in rows]


def test_supervised_rows_are_whole_replies_that_became_right_kernels(path: Path, ids: dict[str, str]) -> None:
    rows = read(path, "supervised")
    assert names(rows, ids) == ["fast", "slow", "near", "finer", "mended", "finest"]
    first, facts = rows[0], rows[0]["facts"]
    assert first["prompt"] == [{"role": "user", "content": SAME}]
    assert first["reply"] == "the reply: fast"
    assert facts["source"].startswith("// fast")
    assert facts["gain"] == pytest.approx(20.0)
    assert facts["evaluation"]["speedup"]["value"] == pytest.approx(2.0)
    key = facts["evaluation"]["key"]
    assert EvaluationKey(**key).digest == facts["evaluation"]["digest"]
    assert (key["evaluator_version"], key["device"], key["budget"]) == ("1", "Test CPU", "quick")


def test_preferences_are_between_kernels_whose_intervals_are_apart(path: Path, ids: dict[str, str]) -> None:
    rows = read(path, "preference")
    pairs = list(zip(names(rows, ids, "chosen_facts"), names(rows, ids, "rejected_facts"), strict=True))
    assert pairs == [("fast", "slow"), ("near", "slow")]  # near and fast overlap, wrong was never timed
    compared = rows[0]["compared"]
    assert compared["chosen"]["speedup"]["low"] > compared["rejected"]["speedup"]["high"]
    assert (rows[0]["chosen"], rows[0]["rejected"]) == ("the reply: fast", "the reply: slow")


def test_each_reply_is_held_against_the_nearest_faster_one_and_the_fastest(path: Path) -> None:
    ids = {}
    with StoreBuilder(path) as builder:
        for name, speedup in (("one", 1.0), ("four", 4.0), ("two", 2.0), ("three", 3.0)):
            builder.call(f"the reply: {name}", prompt=SAME)
            ids[name] = builder.add(f"// {name}\n", speedup=speedup, operator="draft")
    rows = read(path, "preference")
    pairs = [*zip(names(rows, ids, "rejected_facts"), names(rows, ids, "chosen_facts"), strict=True)]
    assert pairs == [("one", "two"), ("one", "four"), ("two", "three"), ("two", "four"), ("three", "four")]


def test_the_largest_budget_that_both_were_given_decides(path: Path, ids: dict[str, str]) -> None:
    remeasure(path, ids["fast"], 1.0, budget=Fidelity.PRECISE)  # what looked fast is not
    (row,) = read(path, "preference")
    assert names([row], ids, "chosen_facts") + names([row], ids, "rejected_facts") == ["near", "slow"]
    remeasure(path, ids["near"], 2.0, budget=Fidelity.PRECISE)
    rows = {name: row for row in read(path, "preference") for name in names([row], ids, "rejected_facts")}
    assert rows["fast"]["compared"]["budget"] == "precise"
    assert rows["slow"]["compared"]["budget"] == "quick"


def test_a_kernel_that_did_not_hold_is_recommended_by_no_row(path: Path, ids: dict[str, str]) -> None:
    remeasure(path, ids["fast"], None)
    assert "fast" not in names(read(path, "supervised"), ids)
    assert names(read(path, "preference"), ids, "chosen_facts") == ["near"]
    (turn, _), *_ = (row["turns"] for row in read(path, "trajectory"))
    assert (turn["facts"]["status"], turn["score"]) == ("holdout_failed", 0.0)


def test_trajectories_follow_refinements_and_repairs(path: Path, ids: dict[str, str]) -> None:
    rows = read(path, "trajectory", discount=0.5)
    assert chains(rows, ids) == [["fast", "finer"], ["wrong", "mended", "finest"]]
    scores = [turn["score"] for turn in rows[1]["turns"]]
    assert scores == pytest.approx([0.0, 1.8, 1.55])
    assert [turn["return"] for turn in rows[1]["turns"]] == pytest.approx([1.2875, 2.575, 1.55])
    assert rows[1]["turns"][0]["facts"]["feedback"] == "about wrong"


def test_returns() -> None:
    assert discounted([], 0.4) == []
    assert discounted([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]
    assert discounted([1.0, 2.0], 0.0) == [1.0, 2.0]


def test_filters(path: Path, ids: dict[str, str]) -> None:
    remeasure(path, ids["finer"], 2.5)
    assert names(read(path, "supervised", min_speedup=1.9), ids) == ["fast", "near", "finer"]
    assert names(read(path, "supervised", min_speedup=2.0), ids) == ["finer"]  # by the low end
    assert names(read(path, "supervised", operators=frozenset({"repair"})), ids) == ["mended"]
    assert names(read(path, "supervised", models=frozenset({"large"})), ids) == ["fast", "slow", "near"]
    assert names(read(path, "supervised", holdout_passed=True), ids) == ["finer"]
    assert chains(read(path, "trajectory", holdout_passed=True), ids) == [["fast", "finer"]]
    assert read(path, "trajectory", operators=frozenset({"refine"})) == []
    assert read(path, "preference", models=frozenset({"small"})) == []


def test_every_row_is_as_the_schema_says(path: Path, ids: dict[str, str]) -> None:
    schema = json.loads(schema_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    rows = read(path)
    assert {row["kind"] for row in rows} == {"supervised", "preference", "trajectory"}
    for row in rows:
        validator.validate(row)
    for row in rows:
        for broken in (*({k: v for k, v in row.items() if k != name} for name in row), {**row, "more": 1}):
            with pytest.raises(ValidationError):
                validator.validate(broken)
    wrong = json.loads(json.dumps(rows[0]))
    wrong["facts"]["status"] = "numerical"
    with pytest.raises(ValidationError):
        validator.validate(wrong)


def test_the_schema_describes_nothing_that_no_row_has(path: Path, ids: dict[str, str]) -> None:
    defs = json.loads(schema_text())["$defs"]
    rows = {row["kind"]: row for row in read(path)}
    for kind, row in rows.items():
        assert set(defs[kind]["properties"]) == set(row)
    facts = rows["supervised"]["facts"]
    assert set(defs["facts"]["properties"]) == set(facts)
    assert set(defs["evaluation"]["properties"]) == set(facts["evaluation"])

"""Tables of training data, of a run with models and of one by rules alone."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.candidate import Proposal
from evokernel.records.llm import Message
from evokernel.training.dataset import write_dataset
from evokernel.training.rows import ReplyChoice
from evokernel.training.table_check import check_table, is_table
from evokernel.training.tables import TableChoice, table_rows
from tests.support.stores import StoreBuilder, fill_store
from tests.training.conftest import SAME, remeasure


@pytest.fixture
def store(path: Path, ids: dict[str, str]) -> Iterator[Store]:
    with Store.open(path, write=False) as opened:
        yield opened


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def write(folder: Path, store: Store, **choice: Any) -> dict[str, list[dict[str, Any]]]:
    write_dataset(folder, [store], ReplyChoice(), tables=TableChoice(**choice))
    return {path.parent.name: read(path) for path in folder.glob("*/train.jsonl")}


def test_every_table_that_has_rows_is_a_folder_with_a_card(store: Store, ids: dict[str, str], tmp_path: Path) -> None:
    tables = write(tmp_path / "data", store)
    assert set(tables) == {"kernels", "sft", "preference", "fixes", "trajectories"}
    for name in tables:
        card = (tmp_path / "data" / name / "README.md").read_text()
        assert "  - split: train\n    path: train.jsonl\n" in card
        assert (store.meta("run_id") or "-") in card
    assert all(f"- config_name: {name}\n" in (tmp_path / "data" / "README.md").read_text() for name in tables)
    kernels = {row["candidate"]: row for row in tables["kernels"]}
    wrong, finer = kernels[ids["wrong"]], kernels[ids["finer"]]
    assert (wrong["status"], wrong["reward_execution"], wrong["reward_speed"]) == ("compile_error", 0.0, 0.0)
    assert (finer["parent"], finer["reward_execution"]) == (ids["fast"], 1.0)
    assert finer["speedup_low"] == finer["reward_speed"] > 2.5
    assert (wrong["measured"], finer["measured"]) == (None, "search")
    assert "+// finer" in finer["diff"].splitlines()
    assert ids["ours"] not in kernels, "a fault of the evaluator teaches nothing"


def test_pairs_are_told_apart_and_a_fix_begins_with_what_was_wrong(
    store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    tables = write(tmp_path / "data", store)
    pairs = {(row["candidate"], row["rejected_candidate"]) for row in tables["preference"]}
    assert (ids["fast"], ids["slow"]) in pairs
    gains = {(row["candidate"], row["rejected_candidate"]): row for row in tables["preference"]}
    row = gains[ids["fast"], ids["slow"]]
    assert row["gain"] == pytest.approx(2 * row["rejected_gain"])
    assert gains[ids["fast"], ids["wrong"]]["rejected_gain"] is None
    assert (ids["fast"], ids["wrong"]) in pairs
    assert not {(ids["near"], ids["fast"]), (ids["fast"], ids["near"])} & pairs
    (fix,) = (row for row in tables["fixes"] if row["candidate"] == ids["mended"])
    assert fix["error"] == "compile_error"
    assert "about wrong" in fix["prompt"]
    assert "// mended" in fix["completion"]
    (way,) = (row for row in tables["trajectories"] if row["candidate"] == ids["finest"])
    assert [step["candidate"] for step in way["steps"]] == [ids[name] for name in ("seed", "wrong", "mended", "finest")]
    scores = [step["score"] for step in way["steps"]]
    assert [step["score"] - step["reward_execution"] for step in way["steps"]][1] == 0.0
    assert way["steps"][0]["return_max"] == max(scores)
    assert way["steps"][1]["return_discounted"] == pytest.approx(scores[1] + 0.4 * scores[2] + 0.16 * scores[3])


def test_where_a_model_was_asked_the_prompt_is_the_stored_one(
    store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    tables = write(tmp_path / "data", store, form="trl")
    edits = {row["candidate"]: row for row in tables["sft"] if row["form"] == "edit"}
    asked = [[each["content"] for each in row["prompt"]] for name, row in edits.items() if name == ids["fast"]]
    assert [texts[-1] for texts in asked] == [SAME]
    answer = edits[ids["fast"]]["completion"][0]["content"]
    assert answer.startswith("IDEA: ")
    assert f"\nPREDICTED: {edits[ids['fast']]['gain']:.2f}x\n\n```cpp\n" in answer
    assert "Make this kernel faster." in edits[ids["ruled"]]["prompt"][-1]["content"], "no prompt is written for it"


def test_where_a_rule_made_a_kernel_an_operator_writes_the_prompt(
    store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    wanted: list[str] = []

    def written(_: Store, proposals: Sequence[Proposal]) -> dict[int, tuple[Message, ...]]:
        wanted.extend(each.candidate.id for each in proposals)
        return {each.step: (Message("system", "you"), Message("user", "do it")) for each in proposals}

    write_dataset(tmp_path / "data", [store], ReplyChoice(), tables=TableChoice(), write=written)
    rows = {row["candidate"]: row for row in read(tmp_path / "data/sft/train.jsonl") if row["form"] == "edit"}
    assert wanted == [ids["ruled"]]
    assert rows[ids["ruled"]]["prompt"] == "you\n\ndo it"


@pytest.mark.parametrize("form", ["trl", "chatml"])
def test_forms(store: Store, tmp_path: Path, form: str) -> None:
    row = write(tmp_path / "data", store, form=form)["preference"][0]
    if form == "trl":
        assert [each["role"] for each in row["prompt"]] == ["system", "user"]
        assert [each["role"] for each in row["chosen"]] == ["assistant"]
    else:
        assert row["prompt"].startswith("<|im_start|>system\n")
        assert row["prompt"].endswith("<|im_start|>assistant\n")
        assert row["chosen"].endswith("<|im_end|>\n")


def test_filters_balance_and_split(store: Store, ids: dict[str, str], tmp_path: Path) -> None:
    tables = write(tmp_path / "fast", store, min_speedup=2.5, balance=0)
    assert {row["status"] for row in tables["kernels"]} == {"ok"}
    assert all(row["speedup_low"] >= 2.5 for row in tables["sft"])
    words = 8  # of every rationale but the seed's
    assert {row["form"] for row in write(tmp_path / "told", store, min_rationale=words)["sft"]} >= {"edit"}
    assert "sft" not in write(tmp_path / "mute", store, min_rationale=words + 1)
    identity = store.identity()
    assert identity is not None
    write_dataset(
        tmp_path / "split", [store], ReplyChoice(), tables=TableChoice(), test_tasks=[identity.task]
    )  # fmt: skip
    assert (tmp_path / "split" / "kernels" / "test.jsonl").exists()
    assert not (tmp_path / "split" / "kernels" / "train.jsonl").exists()


def test_a_run_by_rules_teaches_too(tmp_path: Path) -> None:
    fill_store(tmp_path / "rules.db")
    with Store.open(tmp_path / "rules.db", write=False) as store:
        assert write(tmp_path / "data", store)["kernels"]
    assert not list((tmp_path / "data").glob("*.jsonl"))


def test_no_kernel_that_is_slow_beside_the_best_answers_the_call_for_a_fast_one(
    store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    tables = write(tmp_path / "data", store)
    speeds = {row["candidate"]: row["speedup"] for row in tables["kernels"] if row["speedup"]}
    answers = {row["candidate"] for row in tables["sft"] if row["form"] == "reference"}
    assert ids["seed"] in speeds.keys() - answers
    assert answers == {name for name, speedup in speeds.items() if speedup >= max(speeds.values()) / 2}


def test_ways_share_the_rows_of_the_kernels_they_go_through(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        parent = builder.add("// parent\n", speedup=1.2, parents=(builder.seed(),))
        for number in range(2):
            builder.add(f"// child {number}\n", speedup=1.3, parents=(parent,))
        tables = table_rows(builder.store, "", TableChoice(), write=lambda store, proposals: {})
    one, other = (way["steps"][1]["diff"] for way in tables["trajectories"])
    assert one is other, "long ways of a large run would be compared anew for each of their ends"


def test_a_deep_lineage_gives_the_last_steps_of_its_ways(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        name = builder.seed()
        for number in range(20):
            name = builder.add(f"// child {number}\n", speedup=1.0 + number % 7, parents=(name,))
    found, ways, stages = [], [], list[str]()
    with Store.open(tmp_path / "a.db", write=False) as store:
        for steps in (0, 3, 16):
            tables = TableChoice(steps=steps)
            made = write_dataset(
                tmp_path / "data", [store], ReplyChoice(), tables=tables, notify=stages.append
            )  # fmt: skip
            (row,) = read(tmp_path / "data" / "trajectories" / "train.jsonl")
            found.append((row["length"], row["earlier"], made.cut))
            asked = json.loads((tmp_path / "data" / "dataset.json").read_text())["choice"]
            assert (asked["steps"], asked["form"]) == (steps, "raw")
            ways.append(row["steps"])
        assert made.empty == ("preference/", "fixes/")
        assert TableChoice().steps == 16
    assert ways[1:] == [ways[0][-3:], ways[0][-16:]]
    assert found == [(21, 0, 0), (3, 18, 1), (16, 5, 1)]
    assert stages[:2] == ["a.db: making rows of 21 facts", f"writing to {tmp_path / 'data'}"]


def test_a_changed_row_is_found(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "data", store)
    for name in ("kernels", "sft", "preference", "fixes", "trajectories"):
        file = tmp_path / "data" / name / "train.jsonl"
        assert is_table(file)
        sound = check_table(file, [store])
        assert (sound.rows > 0, sound.complaints) == (True, ())
    file = tmp_path / "data" / "kernels" / "train.jsonl"
    first, *others = read(file)
    file.write_text("\n".join(json.dumps(row) for row in ({**first, "status": "numerical"}, *others)))
    (found,) = check_table(file, [store]).complaints
    assert (found.line, found.reason) == (1, "differs from the store in status")
    file.write_text('[1]\n{"run": "x"}\n{"run": "x", "candidate": "y", "steps": [3]}\n' + json.dumps(first))
    assert [each.line for each in check_table(file, [store]).complaints] == [1, 2, 3]


def test_a_row_from_before_a_final_measurement_is_told_in_one_sentence(
    path: Path, store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path / "data", store)
    remeasure(path, ids["ruled"], 3.9)
    file = tmp_path / "data" / "kernels" / "train.jsonl"
    (found,) = check_table(file, [store]).complaints
    assert found.reason == f"is from before {ids['ruled']} was measured anew: export once more"
    rows = [row | ({"gain": 7.0} if row["candidate"] == ids["ruled"] else {}) for row in read(file)]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "differs from the store in gain" in {each.reason for each in check_table(file, [store]).complaints}


def features_of(card: Path) -> dict[str, Any]:
    """Return the `dataset_info` of a card: by table, or the features of the only one."""
    info = yaml.safe_load(card.read_text(encoding="utf-8").split("---\n")[1])["dataset_info"]
    return {each["config_name"]: each["features"] for each in info} if isinstance(info, list) else info["features"]


def fits(features: list[dict[str, Any]], row: dict[str, Any]) -> bool:
    """Say whether a row has the columns of a card, in order, and each value its type or none."""
    types = {"string": str, "float64": float, "int64": int}
    return [each["name"] for each in features] == list(row) and all(
        all(fits(each["list"], item) for item in row[each["name"]])
        if "list" in each
        else row[each["name"]] is None or type(row[each["name"]]) is types[each["dtype"]]
        for each in features
    )


@pytest.mark.parametrize("form", ["raw", "trl", "chatml"])
def test_cards_declare_the_type_of_every_column(store: Store, tmp_path: Path, form: str) -> None:
    tables = write(tmp_path / "data", store, form=form)
    whole = features_of(tmp_path / "data" / "README.md")
    for name, rows in tables.items():
        assert whole[name] == features_of(tmp_path / "data" / name / "README.md")
        assert all(fits(whole[name], row) for row in rows), name


@pytest.mark.parametrize("parquet", [False, True])
def test_a_column_has_one_type_though_a_run_leaves_it_empty(store: Store, tmp_path: Path, parquet: bool) -> None:
    datasets = pytest.importorskip("datasets")
    fill_store(tmp_path / "rules.db")
    found = []
    with Store.open(tmp_path / "rules.db", write=False) as rules:
        for name, each in (("by rules", rules), ("by a model", store)):
            write_dataset(tmp_path / name, [each], ReplyChoice(), tables=TableChoice(), parquet=parquet)
            found.append(datasets.load_dataset(str(tmp_path / name), "kernels", cache_dir=str(tmp_path / "cache")))
    assert not any(found[0]["train"]["model"])
    assert found[0]["train"].features == found[1]["train"].features


def test_datasets_and_pandas_read_every_table(store: Store, tmp_path: Path) -> None:
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    tables = write(tmp_path / "data", store, form="trl")
    whole, cache = str(tmp_path / "data"), str(tmp_path / "cache")
    assert set(datasets.get_dataset_config_names(whole)) == set(tables)
    for name, rows in tables.items():
        assert datasets.load_dataset(whole, name, cache_dir=cache)["train"].num_rows == len(rows)
        folder = tmp_path / "data" / name
        assert len(pandas.read_json(folder / "train.jsonl", lines=True)) == len(rows)
        loaded = datasets.load_dataset(str(folder), cache_dir=cache)
        assert loaded["train"].num_rows == len(rows)


def test_a_way_is_scored_by_the_search_alone(path: Path, ids: dict[str, str], tmp_path: Path) -> None:
    remeasure(path, ids["seed"], 9.0)
    with Store.open(path, write=False) as store:
        tables = write(tmp_path / "data", store)
    seed = next(row for row in tables["kernels"] if row["candidate"] == ids["seed"])
    assert (seed["measured"], seed["speedup"]) == ("final", pytest.approx(9.0))
    ways = tables["trajectories"]
    first = ways[0]["steps"][0]
    assert first["candidate"] == ids["seed"]
    assert first["speedup"] == pytest.approx(9.0)
    assert first["score"] < 1 + 2, "its children were not measured so"


def test_other_rows_have_another_card(path: Path, ids: dict[str, str], store: Store, tmp_path: Path) -> None:
    digests = []
    for choice in ({}, {"min_speedup": 1.2}):
        write(tmp_path / "data", store, **choice)
        texts = [(tmp_path / "data" / name / "README.md").read_text() for name in (".", "sft")]
        digests.append([re.findall("description: rows (\\w{16})\n", text) for text in texts])
    (folder, table), (other_folder, other_table) = digests
    assert table != other_table
    assert set(table) <= set(folder)
    assert set(other_table) <= set(other_folder)


def test_a_test_task_is_known_by_its_name_and_its_replies_stay_apart(
    store: Store, ids: dict[str, str], tmp_path: Path
) -> None:
    identity = store.identity()
    assert identity is not None
    folder = tmp_path / "data"
    write_dataset(
        folder, [store], ReplyChoice(), tables=TableChoice(), test_tasks=[f"/some/where/{identity.task}_task.py"]
    )
    assert not (folder / "supervised.jsonl").exists()
    assert read(folder / "supervised.test.jsonl")
    assert (folder / "sft" / "test.jsonl").is_file()
    with pytest.raises(StoreError, match=f"no run is of the test task other; there are runs of: {identity.task}"):
        write_dataset(folder, [store], ReplyChoice(), test_tasks=["other"])
    write_dataset(folder, [store], ReplyChoice())
    assert not (folder / "supervised.test.jsonl").exists()

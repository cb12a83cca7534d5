"""Rows are checked against the stores they come from."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.evaluation import Fidelity
from evokernel.training.checking import check_file
from evokernel.training.dataset import write_dataset
from evokernel.training.rows import KINDS, ReplyChoice, row_id
from tests.support.stores import fill_store
from tests.training.conftest import fill, remeasure

ROWS = {"supervised": 6, "preference": 2, "trajectory": 2}


@pytest.fixture
def folder(path: Path, ids: dict[str, str], tmp_path: Path) -> Path:
    write(tmp_path / "data", path)
    return tmp_path / "data"


def write(folder: Path, *paths: Path, **choice: Any) -> dict[str, int]:
    with ExitStack() as stack:
        stores = [stack.enter_context(Store.open(path, write=False)) for path in paths]
        return write_dataset(folder, stores, ReplyChoice(**choice)).rows


def complaints(file: Path, path: Path) -> list[str]:
    with Store.open(path, write=False) as store:
        return [complaint.reason for complaint in check_file(file, [store]).complaints]


def change(file: Path, edit: Callable[[dict[str, Any]], None], *, seal: bool) -> None:
    """Change the first row, and where it is to be sealed give it the id that fits."""
    first, *others = file.read_text(encoding="utf-8").split("\n")
    row = json.loads(first)
    edit(row)
    if seal:
        row["id"] = row_id(row)
    file.write_text("\n".join([json.dumps(row), *others]), encoding="utf-8")


def test_what_is_written_is_sound(folder: Path, path: Path) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    with Store.open(path, write=False) as store:
        for kind in KINDS:
            checked = check_file(folder / f"{kind}.jsonl", [store])
            assert (checked.rows, checked.complaints) == (ROWS[kind], ())
            assert manifest["files"][f"{kind}.jsonl"]["rows"] == ROWS[kind]
        assert manifest["runs"] == [
            {"id": store.meta("run_id"), "store": "a.db", "rows": sum(ROWS.values()), "difficulty": 1 / 9}
        ]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
        return
    for name, each in inner:
        yield from leaves(each, (*path, name))


def spoil(row: dict[str, Any], path: tuple[Any, ...]) -> None:
    place: Any = row
    for name in path[:-1]:
        place = place[name]
    value = place[path[-1]]
    place[path[-1]] = value + 1 if isinstance(value, int | float) else f"{value}0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seal", [False, True])
def test_no_value_can_be_changed_unnoticed(folder: Path, path: Path, kind: str, seal: bool) -> None:
    file = folder / f"{kind}.jsonl"
    original = file.read_text(encoding="utf-8")
    with Store.open(path, write=False) as store:
        for leaf in leaves(json.loads(original.split("\n")[0])):
            if seal and leaf in (("id",), ("discount",), ("run", "as_of_seq")):
                continue  # the id is made to fit; another discount or a later seq makes another row, true as well
            change(file, lambda row, leaf=leaf: spoil(row, leaf), seal=seal)  # type: ignore[misc]
            assert check_file(file, [store]).complaints, leaf
            file.write_text(original, encoding="utf-8")


def test_a_changed_discount_needs_its_returns(folder: Path, path: Path) -> None:
    file = folder / "trajectory.jsonl"
    change(file, lambda row: row.update(discount=0.9), seal=True)
    assert "differs from the store in turns[0].return" in complaints(file, path)


def test_it_says_what_differs(folder: Path, path: Path) -> None:
    file = folder / "supervised.jsonl"
    change(file, lambda row: row["facts"]["evaluation"]["speedup"].update(value=9.0), seal=True)
    assert complaints(file, path) == ["differs from the store in facts.evaluation.speedup.value"]
    change(file, lambda row: row.update(reply="another"), seal=False)
    assert complaints(file, path)[:2] == [
        "was changed: its id is not the hash of its content",
        "differs from the store in reply",
    ]


def test_rows_stay_sound_while_the_run_goes_on(folder: Path, path: Path, ids: dict[str, str]) -> None:
    remeasure(path, ids["fast"], 1.0, budget=Fidelity.PRECISE)
    remeasure(path, ids["finer"], 2.5)
    assert [complaints(folder / f"{kind}.jsonl", path) for kind in KINDS] == [[], [], []]


def test_what_has_failed_since_is_said(folder: Path, path: Path, ids: dict[str, str]) -> None:
    remeasure(path, ids["fast"], None)
    expected = f"calls {ids['fast']} right, which has failed since (holdout_failed)"
    for kind in KINDS:
        assert complaints(folder / f"{kind}.jsonl", path) == [expected]


@pytest.mark.parametrize(
    "line",
    ["{", "{}", '{"run": 3, "kind": "supervised"}', '{"run": ' + "[" * 9000, '{"kind": "x", "run": {"id": 1}}'],
)
def test_what_is_no_row_is_said_to_be_none(folder: Path, path: Path, line: str) -> None:
    (folder / "odd.jsonl").write_text(line + "\n")
    (reason,) = complaints(folder / "odd.jsonl", path)
    assert reason.startswith("is no row of training data")


@pytest.mark.parametrize("text", ["# A page\n\nof words\n", "[]\n1\n", "[" * 9000])
def test_a_file_of_another_kind_is_refused_in_one_sentence(folder: Path, path: Path, text: str) -> None:
    (folder / "README.md").write_text(text)
    with pytest.raises(StoreError, match=r"README.md is no JSONL: .*; in .* there are .*preference.jsonl"):
        complaints(folder / "README.md", path)


def test_rows_of_other_runs_and_formats_are_not_taken(folder: Path, path: Path, tmp_path: Path) -> None:
    fill(tmp_path / "b.db")
    (reason, *_) = complaints(folder / "supervised.jsonl", tmp_path / "b.db")
    assert "and no such store was named" in reason
    change(folder / "supervised.jsonl", lambda row: row.update(format=2), seal=True)
    assert "has format 2" in complaints(folder / "supervised.jsonl", path)[0]


def test_several_runs_in_one_dataset(path: Path, ids: dict[str, str], tmp_path: Path) -> None:
    fill(tmp_path / "b.db")
    rows = write(tmp_path / "both", path, tmp_path / "b.db")
    assert rows == {kind: 2 * count for kind, count in ROWS.items()}
    with Store.open(path, write=False) as one, Store.open(tmp_path / "b.db", write=False) as other:
        assert not check_file(tmp_path / "both" / "supervised.jsonl", [one, other]).complaints
    with pytest.raises(StoreError, match="two of the stores are of one run"):
        write(tmp_path / "twice", path, path)


def test_refusals(path: Path, ids: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(StoreError, match="holds other files"):
        write(tmp_path / "mine", path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write to .*; name another folder"):
        write(tmp_path / "file" / "data", path)
    fill_store(tmp_path / "rules.db")
    with pytest.raises(StoreError, match="there is nothing to learn from"):
        write(tmp_path / "data", tmp_path / "rules.db")
    assert not (tmp_path / "data").exists()
    with Store.open(path, write=False) as store, pytest.raises(StoreError, match="cannot be read"):
        check_file(tmp_path / "none.jsonl", [store])

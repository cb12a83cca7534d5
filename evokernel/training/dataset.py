"""Folder of training data: tables with cards, rows of replies with their schema, and a manifest of the runs."""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel import __version__
from evokernel.errors import StoreError
from evokernel.report.status import task_name
from evokernel.training.dataset_guide import arrow_fields, card, folder_card
from evokernel.training.rows import FORMAT, KINDS, ReplyChoice, Row, rows_of
from evokernel.training.tables import TABLES, PromptWriter, TableChoice, difficulty, table_rows

MANIFEST, SCHEMA, CARD = "dataset.json", "schema.json", "README.md"
_TEST = ".test"
"""Behind the kind, in the names of files with replies of test tasks."""
_OF_TABLES = ("form", "min_rationale", "balance", "steps")
"""What can be asked of tables alone."""
_Splits = dict[str, list[Row]]
"""Rows of a table by split."""


@dataclass(frozen=True, slots=True)
class TrainingDataset:
    """A folder of training data that was written."""

    folder: Path
    rows: dict[str, int]
    """Number of rows by kind, and by table with a stroke after its name; empty ones left out."""
    empty: tuple[str, ...] = ()
    """Tables that were asked for and have no row, so no folder."""
    cut: int = 0
    """Number of trajectories that lack steps at their beginning."""


def schema_text() -> str:
    """Return the JSON Schema of a row (draft 2020-12)."""
    return resources.files("evokernel.training").joinpath(SCHEMA).read_text(encoding="utf-8")


def write_dataset(  # noqa: PLR0913 - each is a choice of its caller, or what only a higher layer can read
    folder: Path,
    stores: Sequence[Store],
    choice: ReplyChoice,
    *,
    tables: TableChoice | None = None,
    guide: Callable[[Store], str] = lambda store: "",
    write: PromptWriter = lambda store, proposals: {},
    test_tasks: Sequence[str] = (),
    parquet: bool = False,
    difficulties: tuple[float, float] | None = None,
    notify: Callable[[str], None] = lambda stage: None,
) -> TrainingDataset:
    """Write what runs can teach to a folder: new, empty, or an earlier dataset, which is replaced.

    Args:
        folder: gets a folder for each table that has rows, a dataset card for each and one for all, and the files of
            `KINDS` that have rows.
        stores: open for reading.
        choice: filter of the rows of `KINDS`.
        tables: filter and form of the tables; None for no tables.
        guide: returns what a programmer must know of the task of a run; it begins each prompt that no operator wrote.
        write: writes the prompts that operators would have written for children of rules, of a run.
        test_tasks: tasks whose rows go to the split `test`, and whose replies to files of their own.
        parquet: write tables as Parquet, not JSONL.
        difficulties: least and greatest difficulty of a run that is taken, 0 to 1; None takes all.
        notify: takes the name of each stage as it begins; those of a long run last minutes.

    Raises:
        StoreError: the folder holds other files or cannot be written to, two stores are of one run, no run is of a test
            task, there is no row, or pyarrow is missing.
    """
    _check(folder, stores, parquet=parquet)
    taken = _taken(stores, difficulties)
    tasks = [task_name(identity.task) if (identity := store.identity()) else "" for store, _ in taken]
    testing = _testing(tasks, test_tasks)
    replies: dict[str, list[Row]] = {f"{kind}{split}": [] for split in ("", _TEST) for kind in KINDS}
    tabled: dict[str, _Splits] = {}
    runs: list[dict[str, Any]] = []
    places: list[dict[str, Any]] = []
    for (store, hard), task in zip(taken, tasks, strict=True):
        notify(f"{store.database.path.name}: making rows of {store.last_seq()} facts")
        found, split = list(rows_of(store, choice)), "test" if task in testing else "train"
        for row in found:
            replies[f"{row['kind']}{_TEST if split == 'test' else ''}"].append(row)
        identity, run = store.identity(), store.meta("run_id") or ""
        runs.append({"id": run, "store": store.database.path.name, "rows": len(found), "difficulty": hard})
        places.append({**runs[-1], "task": task, "device": identity.device if identity else ""})
        of_run = table_rows(store, guide(store), tables, write=write) if tables else {}
        runs[-1]["rows"] += sum(map(len, of_run.values()))
        for name, each in of_run.items():
            tabled.setdefault(name, {}).setdefault(split, []).extend(each)
    contents = {f"{kind}.jsonl": _jsonl(each) for kind, each in replies.items() if each}
    filled = {name: {at: rows for at, rows in splits.items() if rows} for name, splits in tabled.items()}
    filled = {name: splits for name, splits in filled.items() if splits}
    form, suffix = tables.form if tables else "", "parquet" if parquet else "jsonl"
    notify(f"writing to {folder}")
    for name, splits in filled.items():
        contents |= _table_files(name, splits, places, suffix=suffix, form=form)
    if filled:
        files = {name: [f"{name}/{split}.{suffix}" for split in splits] for name, splits in filled.items()}
        examples = {name: _first(splits) for name, splits in filled.items()}
        contents[CARD] = folder_card(files, examples, contents).encode()
    if not contents:
        raise StoreError(
            "there is nothing to learn from: no kernel that was asked for was judged here (what a fork took along is "
            "exported from the run that it came from)"
        )
    numbers = {f"{kind}.jsonl": len(each) for kind, each in replies.items()}
    numbers |= {f"{name}/{at}.{suffix}": len(rows) for name, splits in filled.items() for at, rows in splits.items()}
    facts = {"runs": runs, "rows": numbers, "test_tasks": sorted(test_tasks), "difficulty": difficulties}
    _publish(folder, contents, facts, choice, tables)
    counts = {kind: len(each) for kind, each in replies.items() if each}
    counts |= {f"{name}/": sum(map(len, splits.values())) for name, splits in filled.items()}
    cut = sum(row["earlier"] > 0 for rows in filled.get("trajectories", {}).values() for row in rows)
    empty = tuple(f"{name}/" for name in TABLES if name not in filled) if tables else ()
    return TrainingDataset(folder, counts, empty, cut)


def _table_files(name: str, splits: _Splits, places: Sequence[Row], *, suffix: str, form: str) -> dict[str, bytes]:
    """Return the files of a table by their paths: one for each split, and the card."""
    write = _parquet if suffix == "parquet" else _jsonl
    parts = {split: (len(rows), write(rows)) for split, rows in splits.items()}
    text = card(name, parts, places, example=_first(splits), suffix=suffix, form=form)
    files = {f"{name}/{split}.{suffix}": content for split, (_, content) in parts.items()}
    return {**files, f"{name}/{CARD}": text.encode()}


def _first(splits: _Splits) -> Row:
    return next(iter(splits.values()))[0]


def _testing(tasks: Sequence[str], asked: Sequence[str]) -> set[str]:
    """Return the names of the test tasks. Raises `StoreError` where no run is of one."""
    testing = {task_name(each) for each in asked}
    if strangers := testing - set(tasks):
        there = ", ".join(sorted(set(tasks)))
        raise StoreError(f"no run is of the test task {', '.join(sorted(strangers))}; there are runs of: {there}")
    return testing


def _taken(stores: Sequence[Store], limits: tuple[float, float] | None) -> list[tuple[Store, float | None]]:
    """Return the stores within limits of difficulty, each with its own. Raises `StoreError` where there is none."""
    known: list[tuple[Store, float | None]] = [(store, difficulty(store)) for store in stores]
    if limits is None:
        return known
    taken: list[tuple[Store, float | None]] = [
        (store, value) for store, value in known if value is not None and limits[0] <= value <= limits[1]
    ]
    if not taken:
        those = ", ".join(
            f"{store.database.path.name} {'unknown' if value is None else f'{value:.4g}'}" for store, value in known
        )
        raise StoreError(f"no run has a difficulty from {limits[0]:g} to {limits[1]:g}; there are: {those}")
    return taken


def _parquet(rows: list[Row]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    schema = pyarrow.schema(arrow_fields(rows[0]))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def _check(folder: Path, stores: Sequence[Store], *, parquet: bool) -> None:
    """Refuse what cannot be written or read, before seconds of work. Raises `StoreError`."""
    if parquet and find_spec("pyarrow") is None:
        raise StoreError("--parquet needs pyarrow, which is not installed: pip install pyarrow")
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; --training names a folder")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there and MANIFEST not in there:
        raise StoreError(f"{folder} holds other files; name a new folder, an empty one, or an earlier dataset")
    ids = [store.meta("run_id") for store in stores]
    if len(set(ids)) != len(ids):
        raise StoreError("two of the stores are of one run, whose rows would be there twice; name each run once")


def _jsonl(rows: list[Row]) -> bytes:
    sink = io.BytesIO()  # a table may be a gigabyte, which a join would hold three times
    for row in rows:
        sink.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    return sink.getvalue()


def _publish(
    folder: Path, files: dict[str, bytes], facts: dict[str, Any], choice: ReplyChoice, tables: TableChoice | None
) -> None:
    rows = facts.pop("rows")
    manifest = {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "evokernel": __version__,
        "choice": {
            "min_speedup": choice.min_speedup,
            "operators": sorted(choice.operators),
            "models": sorted(choice.models),
            "holdout_passed": choice.holdout_passed,
            "discount": choice.discount,
            **({name: getattr(tables, name) for name in _OF_TABLES} if tables else {}),
        },
        **facts,
        "files": {
            name: {"rows": rows[name], "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
            if name in rows
        },
    }
    told = any(name.endswith(".jsonl") and "/" not in name for name in files)
    replies = {SCHEMA: schema_text().encode()} if told else {}
    contents = {**files, **replies, MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}
    try:
        _put(contents, folder)
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error.strerror}; name another folder") from None


def _put(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write all files beside the folder first, so that an earlier dataset stays whole until they are there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as drafts:
        staging = Path(drafts)
        for name, content in contents.items():
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_bytes(content)
        folder.mkdir(exist_ok=True)
        _remove_earlier(folder)
        for name in contents:
            (folder / name).parent.mkdir(exist_ok=True)
            os.replace(staging / name, folder / name)


def _remove_earlier(folder: Path) -> None:
    """Remove the files of an earlier dataset, so that none of its tables stays beside the new ones."""
    for name in TABLES:
        shutil.rmtree(folder / name, ignore_errors=True)
    for kind in KINDS:
        for split in ("", _TEST):
            (folder / f"{kind}{split}.jsonl").unlink(missing_ok=True)
    (folder / CARD).unlink(missing_ok=True)

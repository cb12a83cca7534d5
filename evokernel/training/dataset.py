"""Folder of training data: a file of rows for each kind, their schema, and a manifest of the runs."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel import __version__
from evokernel.errors import StoreError
from evokernel.training.rows import FORMAT, KINDS, ReplyChoice, Row, rows_of

MANIFEST, SCHEMA = "dataset.json", "schema.json"


@dataclass(frozen=True, slots=True)
class TrainingDataset:
    """A folder of training data that was written."""

    folder: Path
    rows: dict[str, int]
    """Number of rows by kind."""


def schema_text() -> str:
    """Return the JSON Schema of a row (draft 2020-12)."""
    return resources.files("evokernel.training").joinpath(SCHEMA).read_text(encoding="utf-8")


def write_dataset(folder: Path, stores: Sequence[Store], choice: ReplyChoice) -> TrainingDataset:
    """Write the rows of runs to a folder: new, empty, or an earlier dataset, which is replaced.

    Raises:
        StoreError: the folder holds other files, two stores are of one run, or there is no row.
    """
    _check(folder, stores)
    rows: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    runs: list[dict[str, Any]] = []
    for store in stores:
        found = list(rows_of(store, choice))
        for row in found:
            rows[row["kind"]].append(row)
        runs.append({"id": store.meta("run_id") or "", "store": store.database.path.name, "rows": len(found)})
    counts = {kind: len(each) for kind, each in rows.items()}
    if not any(counts.values()):
        raise StoreError(
            "there is nothing to learn from: no reply of a model became a right kernel that was asked for, or was "
            "refined; a search by rules alone has no replies"
        )
    _publish(folder, {f"{kind}.jsonl": _lines(each) for kind, each in rows.items()}, runs, choice)
    return TrainingDataset(folder, counts)


def _check(folder: Path, stores: Sequence[Store]) -> None:
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; --training names a folder")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there and MANIFEST not in there:
        raise StoreError(f"{folder} holds other files; name a new folder, an empty one, or an earlier dataset")
    ids = [store.meta("run_id") for store in stores]
    if len(set(ids)) != len(ids):
        raise StoreError("two of the stores are of one run, whose rows would be there twice; name each run once")


def _lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def _publish(folder: Path, files: dict[str, str], runs: list[dict[str, Any]], choice: ReplyChoice) -> None:
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
        },
        "runs": runs,
        "files": {
            name: {"rows": text.count("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for name, text in files.items()
        },
    }
    texts = {**files, SCHEMA: schema_text(), MANIFEST: json.dumps(manifest, indent=2) + "\n"}
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in texts:
            os.replace(staging / name, folder / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)

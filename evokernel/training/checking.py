"""Check of training data against its stores: each row is made anew from the facts and compared."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.evaluation import Status
from evokernel.report.rows import read_judged
from evokernel.training.rows import FORMAT, KINDS, ReplyChoice, Row, row_id, rows_of, steps_of

_MOST_DIFFERENCES, _MOST_NAMED = 4, 8
_Made = dict[tuple[str, tuple[int, ...]], Row]


@dataclass(frozen=True, slots=True)
class Complaint:
    """A fault of one row."""

    line: int
    """Number of the line, from 1."""
    reason: str
    """Clause that follows the number of the line."""


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """Result of a check."""

    rows: int
    """Number of rows that were checked."""
    complaints: tuple[Complaint, ...]
    """In the order of the lines."""


def check_file(path: Path, stores: Sequence[Store]) -> DatasetReport:
    """Check every row of a file against the stores its rows come from.

    A row is sound if its id is the hash of its content, if the store gives the same prompts, replies, hashes, scores
    and verdicts as of the seq it names, and if no kernel that it recommends has failed since. Raises `StoreError` if
    the file cannot be read.
    """
    if path.suffix == ".parquet":
        raise StoreError(f"{path} is Parquet, and only JSONL can be checked: export once more without --parquet")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}{_rows_beside(path)}") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    checker, complaints = _Checker(stores), []
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if numbered and not any(line.lstrip().startswith("{") for _, line in numbered):
        raise StoreError(f"{path} is no JSONL: none of its lines is an object{_rows_beside(path)}")
    for number, line in numbered:
        complaints += [Complaint(number, reason) for reason in checker.complaints(line)]
    return DatasetReport(len(numbered), tuple(complaints))


def _rows_beside(path: Path) -> str:
    """Return a clause with files of rows in a folder, or beside a file; empty without any."""
    folder = path if path.is_dir() else path.parent
    there = ", ".join(map(str, sorted(folder.rglob("*.jsonl"))[:_MOST_NAMED]))
    return f"; in {folder} there are {there}" if there else ""


class _Checker:
    """Checker of rows; makes the rows of a store once for every seq that rows name."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = {store.meta("run_id") or "": store for store in stores}
        self._made: dict[tuple[str, int, float], _Made] = {}
        self._now: dict[str, dict[str, Status]] = {}

    def complaints(self, line: str) -> Iterator[str]:
        """Yield the faults of a row; nothing for a sound one."""
        try:
            row = json.loads(line)
            place, steps = row["run"], steps_of(row)
            run, as_of, discount = str(place["id"]), int(place["as_of_seq"]), float(row.get("discount", 0.0))
            known = (row["format"], row["kind"] in KINDS) == (FORMAT, True)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            yield f"is no row of training data ({type(error).__name__}: {error})"
            return
        if not known:
            yield f"has format {row['format']!r} and kind {row['kind']!r}, which this evokernel does not know"
        elif run not in self._stores:
            yield f"comes from run {run!r}, and no such store was named"
        else:
            yield from self._differences(row, self._rows(run, as_of, discount).get((row["kind"], steps)))
            yield from self._failed_since(row, run)

    def _differences(self, row: Row, made: Row | None) -> Iterator[str]:
        if row.get("id") != row_id(row):
            yield "was changed: its id is not the hash of its content"
        if made is None:
            yield f"is not in the store: no {row['kind']} row comes of steps {steps_of(row)}"
            return
        differing = [path for path in _paths(made, row) if path != "id"]
        for path in differing[:_MOST_DIFFERENCES]:
            yield f"differs from the store in {path}"
        if len(differing) > _MOST_DIFFERENCES:
            yield f"and in {len(differing) - _MOST_DIFFERENCES} more places"

    def _rows(self, run: str, as_of: int, discount: float) -> _Made:
        key = (run, as_of, discount)
        if key not in self._made:
            made = rows_of(self._stores[run], ReplyChoice(discount=discount), until=as_of)
            self._made[key] = {(row["kind"], steps_of(row)): row for row in made}
        return self._made[key]

    def _failed_since(self, row: Row, run: str) -> Iterator[str]:
        if run not in self._now:
            self._now[run] = {each.candidate_id: each.status for each in read_judged(self._stores[run])}
        for facts in _recommended(row):
            status = self._now[run].get(str(facts.get("candidate")), Status.OK)
            if status is not Status.OK and facts.get("status") == Status.OK.value:
                yield f"calls {facts['candidate']} right, which has failed since ({status.value})"


def _recommended(row: Row) -> list[Mapping[str, Any]]:
    if row["kind"] == "trajectory":
        return [turn["facts"] for turn in row["turns"]]
    return [row["facts"] if row["kind"] == "supervised" else row["chosen_facts"]]


def _paths(made: Any, given: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two JSON values differ."""
    if isinstance(made, dict) and isinstance(given, dict):
        for name in [*made, *(name for name in given if name not in made)]:
            inner = f"{path}.{name}" if path else name
            if name not in made or name not in given:
                yield inner
            else:
                yield from _paths(made[name], given[name], inner)
    elif isinstance(made, list) and isinstance(given, list) and len(made) == len(given):
        for place, (one, other) in enumerate(zip(made, given, strict=True)):
            yield from _paths(one, other, f"{path}[{place}]")
    elif type(made) is not type(given) or made != given:
        yield path

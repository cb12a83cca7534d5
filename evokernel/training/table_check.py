"""Check of the rows of training tables against their stores, and of a sample of them by the judge."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Status
from evokernel.training.checking import Complaint, DatasetReport
from evokernel.training.tables import JudgedKernel, kernel_row, read_kernels

_OF_FINAL = frozenset(
    ("holdout", "stage", "feedback", "speedup", "speedup_low", "speedup_high", "measured", "reward_speed")
)
"""Columns that change when a kernel is measured anew."""
_Known = Mapping[str, Mapping[str, JudgedKernel]]


def is_table(file: Path) -> bool:
    """Say whether a file holds rows of a table, by its first row."""
    try:
        with file.open(encoding="utf-8") as lines:
            row = json.loads(lines.readline())
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and {"run", "candidate"} <= row.keys() and "format" not in row


def check_table(
    file: Path, stores: Sequence[Store], *, sample: int = 0, judge: Callable[[Candidate, Store], Status] | None = None
) -> DatasetReport:
    """Compare each row with the store it names, and judge the kernels of a sample of rows anew.

    Args:
        file: JSONL.
        stores: of the runs that rows come from.
        sample: number of rows whose kernels are judged anew.
        judge: judges a candidate as the run of a store did.

    Raises:
        StoreError: the file cannot be read.
    """
    by_run = {store.meta("run_id") or "": store for store in stores}
    known: _Known = {
        run: {each.judged.candidate_id: each for each in read_kernels(store)} for run, store in by_run.items()
    }
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, ValueError) as error:
        raise StoreError(f"{file} cannot be read: {error}") from error
    bad = [number for number, row in enumerate(rows, 1) if not _is_row(row)]
    if bad:
        return DatasetReport(len(rows), tuple(Complaint(number, "is no row of a table") for number in bad))
    found = [Complaint(number, reason) for number, row in enumerate(rows, 1) for reason in _differences(row, known)]
    chosen = sorted(random.Random(0).sample(range(len(rows)), min(sample, len(rows))))
    for number in chosen if judge is not None else ():
        each = known.get(rows[number]["run"], {}).get(rows[number]["candidate"])
        if each is not None and judge is not None:
            status = judge(each.judged.result.proposal.candidate, by_run[rows[number]["run"]])
            found += [Complaint(number + 1, reason) for reason in _judged(each, status)]
    return DatasetReport(len(rows), tuple(found))


def _is_row(row: Any) -> bool:
    """Say whether a line has what every row of a table has."""
    steps = row.get("steps", []) if isinstance(row, dict) else None
    return (
        isinstance(steps, list)
        and all(isinstance(step, dict) for step in steps)
        and isinstance(row.get("run"), str)
        and isinstance(row.get("candidate"), str)
    )


def _differences(row: Mapping[str, Any], known: _Known) -> Iterator[str]:
    run, name = str(row.get("run")), str(row.get("candidate"))
    if run not in known:
        yield f"comes from run {run!r}, and no such store was named"
        return
    for step in row.get("steps", [row]):
        each = known[run].get(str(step.get("candidate")))
        if each is None:
            yield f"names candidate {step.get('candidate')!r}, which its store does not have"
            continue
        made = kernel_row(each)
        differing = [key for key in made if key in step and step[key] != made[key]]
        if (step.get("measured"), made["measured"]) == ("search", "final") and _OF_FINAL.issuperset(differing):
            yield f"is from before {each.judged.candidate_id} was measured anew: export once more"
        else:
            yield from (f"differs from the store in {key}" for key in differing)
    answer = row.get("completion", row.get("chosen"))
    if answer is not None and name in known[run]:
        text = answer if isinstance(answer, str) else "".join(each["content"] for each in answer)
        if known[run][name].source.rstrip() not in text:
            yield "has an answer that is not the source of its candidate"


def _judged(each: JudgedKernel, status: Status) -> Iterator[str]:
    if (status is Status.OK) != each.right:
        yield f"is {each.judged.status.value} in the store, and {status.value} when judged anew"

"""Identity of a run: written by the first session, compared by every later one."""

import json
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from archive.file.checksums import checksum, refuse_changed
from archive.file.database import Database
from archive.file.records import to_json
from archive.writing import edit_row
from evokernel.errors import RunMismatch
from evokernel.records.candidate import clean
from evokernel.records.evaluation import EvaluationKey

_FIXED = ("task", "task_hash", "seed", "language", "device")
_NOTED = ("environment", "evokernel_version")
JUDGED_BY = "judged_by"
"""The value of a run that names the evaluator version and the task hash whose verdicts count; absent: any."""
_MEANT = {"task_hash": " (the task's reference, workloads, tolerances or baselines, or how it is evaluated)"}


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The properties by which two sessions belong to one run.

    A changed `environment` or `evokernel_version` is noted as a config edit; evaluations under the old one are not used
    again, since their keys differ. The other fields must stay equal.
    """

    task: str
    """The name of the task."""
    task_hash: str
    """The hash of its specification."""
    seed: int
    """The seed of all random streams."""
    language: str
    """The language of the candidates."""
    device: str
    """The device that kernels are timed on."""
    environment: str
    """The hash of toolchain and machine."""
    evokernel_version: str
    """The release that opened the session."""
    task_spec: Mapping[str, Any]
    """JSON values behind the task hash, so that a mismatch can name the field."""
    evaluator_version: str = ""
    """The version whose evaluations count; empty for any. Others are on another scale."""

    def counts(self, key: EvaluationKey) -> bool:
        """Say whether an evaluation is of this run's task, device and evaluator."""
        return (
            (key.task_hash, key.device) == (self.task_hash, self.device)
            and self.evaluator_version in ("", key.evaluator_version)
        )  # fmt: skip


def read_meta(database: Database, key: str) -> str | None:
    """Return a value of the run, or None. Raises `StoreCorrupt` for one that does not fit its checksum."""
    row = database.row("SELECT value, checksum FROM meta WHERE key = ?", (key,))
    if row is None:
        return None
    refuse_changed(database, "meta", (key, row["value"]), stored=row["checksum"])
    return str(row["value"])


def write_meta(database: Database, key: str, value: str) -> None:
    """Set a value of the run (one statement, its own transaction unless one is open)."""
    sql = "INSERT INTO meta VALUES (?, ?, ?) ON CONFLICT(key) DO UPDATE SET "
    row = (key, clean(value))
    database.execute(f"{sql} value = excluded.value, checksum = excluded.checksum", (*row, checksum("meta", row)))


def read_identity(database: Database) -> RunIdentity | None:
    """Return the identity in the store, or None before the first session."""
    text = read_meta(database, "identity")
    if text is None:
        return None
    return RunIdentity(**json.loads(text), evaluator_version=(read_meta(database, JUDGED_BY) or "").partition(" ")[0])


def begin_run(database: Database, identity: RunIdentity, *, session: int | None, earlier: Collection[str] = ()) -> None:
    """Write the identity of a new run, or compare it with the stored one.

    A task hash among the `earlier` ones is of the same task. Raises `RunMismatch` if the store holds a different
    search; the message names each differing field.
    """
    with database.transaction():
        old = read_identity(database)
        if old is None:
            if read_meta(database, "run_id") is None:
                new_run(database)
        else:
            same = old.task_hash in earlier
            _compare(database, replace(old, task_hash=identity.task_hash) if same else old, identity)
            for name in (*_NOTED, "task_hash"):
                before, after = getattr(old, name), getattr(identity, name)
                if before != after:
                    edit_row(database, name, before, after, session=session)
        write_meta(database, "identity", _text(identity))


def new_run(database: Database) -> None:
    """Give the store the id and the date of a new run."""
    write_meta(database, "run_id", uuid.uuid4().hex[:12])
    write_meta(database, "created", repr(time.time()))


def _text(identity: RunIdentity) -> str:
    values = {name: getattr(identity, name) for name in (*_FIXED, *_NOTED)}
    return to_json({**values, "task_spec": dict(identity.task_spec)})


def _compare(database: Database, old: RunIdentity, new: RunIdentity) -> None:
    new = RunIdentity(**json.loads(_text(new)))  # as it would be read back: tuples become lists
    differing = [
        f"{name}{_MEANT.get(name, '')}: {getattr(old, name)} -> {getattr(new, name)}"
        for name in _FIXED
        if getattr(old, name) != getattr(new, name)
    ]
    if not differing:
        return
    before, after = _flat(old.task_spec), _flat(new.task_spec)
    differing += [
        f"task.{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    raise RunMismatch(
        f"{database.path} holds a different search:\n  " + "\n  ".join(differing) + "\n"
        "put these back; or start over with --fresh (the old file is kept under a dated name); "
        "or take a kernel along into a new store with `evokernel fork`"
    )


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    inner = {name: _flat(item, f"{prefix}.{name}" if prefix else name) for name, item in value.items()}
    return {name: item for part in inner.values() for name, item in part.items()}

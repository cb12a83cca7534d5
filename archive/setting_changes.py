"""Edits of a run's config between its sessions."""

import json
from dataclasses import dataclass
from typing import Any

from archive.store import Store


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that was edited."""

    seq: int
    """The number of the fact."""
    at: float
    """The time of commit, in s since 1970."""
    key: str
    """The setting, dotted."""
    old: Any
    """The value before; None where it was absent."""
    new: Any
    """The value from this seq on; None where it is absent."""


def edits_of(store: Store) -> tuple[SettingChange, ...]:
    """Return every edit, oldest first."""
    rows = store.database.rows(
        "SELECT c.seq, j.at, c.key, c.old, c.new FROM config_edits c JOIN journal j ON j.seq = c.seq ORDER BY c.seq"
    )
    return tuple(
        SettingChange(row["seq"], row["at"], row["key"], json.loads(row["old"]), json.loads(row["new"])) for row in rows
    )

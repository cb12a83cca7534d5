"""What was edited in the config of a run between its sessions."""

import json
from dataclasses import dataclass
from typing import Any

from archive.store import Store


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting by dotted key, as it was and as it is from a seq on; None for one that was absent."""

    seq: int
    at: float
    key: str
    old: Any
    new: Any


def edits_of(store: Store) -> tuple[SettingChange, ...]:
    """Return every edit, oldest first."""
    rows = store.database.rows(
        "SELECT c.seq, j.at, c.key, c.old, c.new FROM config_edits c JOIN journal j ON j.seq = c.seq ORDER BY c.seq"
    )
    return tuple(
        SettingChange(row["seq"], row["at"], row["key"], json.loads(row["old"]), json.loads(row["new"])) for row in rows
    )

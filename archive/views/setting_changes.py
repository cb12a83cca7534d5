"""Edits of a run's config between its sessions."""

import json

from archive.journal import ConfigEntry
from archive.store import Store


def edits_of(store: Store) -> tuple[ConfigEntry, ...]:
    """Return every edit, oldest first."""
    rows = store.database.rows(
        "SELECT c.seq, j.at, c.key, c.old, c.new FROM config_edits c JOIN journal j ON j.seq = c.seq ORDER BY c.seq"
    )
    return tuple(
        ConfigEntry(row["seq"], row["at"], row["key"], json.loads(row["old"]), json.loads(row["new"])) for row in rows
    )

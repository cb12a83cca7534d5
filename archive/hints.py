"""What people have told the search: hints that were handed in."""

import json
from dataclasses import dataclass

from archive.store import Store
from evokernel.records.candidate import EVERYWHERE


@dataclass(frozen=True, slots=True)
class Hint:
    """Something a person said, at a seq, for one island or for all (`*`)."""

    seq: int
    author: str
    island: str
    text: str


def hints_in_force(store: Store, *, until: int | None = None, island: str | None = None) -> tuple[Hint, ...]:
    """Return the hints in force after a seq (None: now) for an island (None: for any), oldest first.

    Each is an inbox entry of kind `hint` with a `text` and maybe an `island`.
    """
    rows = store.database.rows(
        "SELECT taken_seq, payload, author FROM inbox WHERE kind = 'hint' AND taken_seq <= ? ORDER BY taken_seq",
        (store.last_seq() if until is None else until,),
    )
    found: list[Hint] = []
    for row in rows:
        payload = json.loads(row["payload"])
        text = payload.get("text") if isinstance(payload, dict) else None
        if isinstance(text, str) and text.strip():
            place = str(payload.get("island") or EVERYWHERE)
            found.append(Hint(row["taken_seq"], row["author"], place, text.strip()))
    return tuple(hint for hint in found if island is None or hint.island in (island, EVERYWHERE))

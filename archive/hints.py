"""Hints of people to the models of a run."""

import json
from dataclasses import dataclass

from archive.store import Store
from evokernel.records.candidate import EVERYWHERE


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint that was handed in."""

    seq: int
    """The fact by which the engine took it in."""
    author: str
    """The person or program that wrote it."""
    island: str
    """The island that it is for; `*` for all."""
    text: str
    """Its words."""


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

"""Hints of people, and of agents, to the models of a run."""

import json
from collections import Counter
from dataclasses import dataclass

from archive.store import Store
from evokernel.records.candidate import EVERYWHERE, MOST_AGENT_HINTS


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
    by_agent: bool = False
    """It was left by an agent that answered a step."""


def hints_in_force(store: Store, *, until: int | None = None, island: str | None = None) -> tuple[Hint, ...]:
    """Return the hints in force after a seq (None: now) for an island (None: for any), oldest first.

    Each is an inbox entry of kind `hint` with a `text`, maybe an `island`, and the `agent` that left it. Of agents the
    newest on each island are in force.
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
            found.append(Hint(row["taken_seq"], row["author"], place, text.strip(), bool(payload.get("agent"))))
    left = Counter[str]()
    newest: list[Hint] = []
    for hint in reversed(found):
        left[hint.island] += hint.by_agent
        if not hint.by_agent or left[hint.island] <= MOST_AGENT_HINTS:
            newest.append(hint)
    return tuple(hint for hint in reversed(newest) if island is None or hint.island in (island, EVERYWHERE))

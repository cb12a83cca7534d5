"""State of a search as plain data: equality, snapshot, restore and fingerprint derive from its fields."""

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from archive.account import RunAccount
from evokernel.engine.inbox import AnsweredPrompt, Submission
from evokernel.records.candidate import clean
from islands.references import ResultSource
from islands.state import ArchipelagoState


@dataclass(slots=True)
class SearchState:
    """The state after a fact."""

    archipelago: ArchipelagoState
    """The islands, and the history of everything that was tried."""
    account: RunAccount = field(default_factory=RunAccount)
    """The account of the run."""
    answers: dict[int, AnsweredPrompt] = field(default_factory=dict)
    """Replies to prompts that were answered elsewhere, by number in the inbox."""
    injected: dict[str, Submission] = field(default_factory=dict)
    """Sources that were handed in and are not judged yet, by id of the candidate."""
    seq: int = field(default=0, compare=False)
    """The last fact applied; facts that change nothing may come after it."""

    def fingerprint(self) -> str:
        """Return a hash over all fields that are compared: equal after a replay."""
        plain, _ = to_plain(self)
        return fingerprint_of(plain)


def to_plain(state: SearchState) -> tuple[dict[str, Any], set[int]]:
    """Return the fields as JSON values, and the seqs of the results that they name."""
    seqs: set[int] = set()
    dumped = _adapter().dump_python(state, context=seqs)
    return {name: _canonical(value) for name, value in dumped.items()}, seqs


def from_plain(plain: Any, results: ResultSource) -> SearchState:
    """Return the state of plain values. Raises `ValueError` or `LookupError` for other values."""
    return _adapter().validate_python(plain, context=results)


def fingerprint_of(plain: Mapping[str, Any]) -> str:
    """Return the fingerprint of a state from its plain values."""
    compared = {each.name: plain[each.name] for each in fields(SearchState) if each.compare}
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:16]


@cache
def _adapter() -> TypeAdapter[SearchState]:
    return TypeAdapter(SearchState)


def _canonical(value: Any) -> Any:
    """Return one form for values that are equal once they are stored.

    Live, a measured number may be an integer where the store gives a float, and a text may hold lone surrogates.
    """
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {clean(str(key)): _canonical(each) for key, each in value.items()}
    return [_canonical(each) for each in (sorted(value) if isinstance(value, Set) else value)]

"""Findings of `evokernel doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    """Level of a finding; `MISSING` keeps a search from running."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of this machine."""

    name: str
    """Of the thing that was checked."""
    state: FindingLevel
    found: str
    """In words."""
    advice: str = ""
    """Remedy where the level is not `OK`, or a note; may be empty."""

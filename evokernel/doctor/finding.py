"""What `evokernel doctor` says of one thing."""

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    """How good a finding is; `MISSING` keeps a search from running."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was found, and what to do where that is not good."""

    name: str
    state: FindingLevel
    found: str
    advice: str = ""

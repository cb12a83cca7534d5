"""Findings of instruments on a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import PhaseVerdict


def one_line(text: str) -> str:
    """Return foreign words as one line of limited length."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:200]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings of one instrument on a candidate."""

    verdict: PhaseVerdict | None = None
    """Set where something is wrong."""
    complete: bool = False
    """Every check ran to its end."""
    remarks: str = ""
    """Lines for the author of the kernel."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers with their unit in the name."""

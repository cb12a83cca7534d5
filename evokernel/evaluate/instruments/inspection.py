"""What instruments have found in a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.evaluate.wire import PhaseVerdict


def one_line(text: str) -> str:
    """Return somebody else's words as one line, cut where it gets long."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:200]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A `verdict` where something is wrong, `complete` where all was looked at, and what else is told.

    `remarks` are lines for the author of the kernel; `metrics` are numbers with their unit in the name.
    """

    verdict: PhaseVerdict | None = None
    complete: bool = False
    remarks: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)

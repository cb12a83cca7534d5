"""Differences between two sources, within limits that hold for any text of a model."""

from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice

from evokernel.report.safe_text import clean

CONTEXT_LINES = 3
LINE_CHARACTERS = 400
SOURCE_LINES = 4000
CHANGED_LINES = 600


@dataclass(frozen=True, slots=True)
class SourceDiff:
    """A unified diff without its heading."""

    lines: tuple[str, ...]
    """At most `CHANGED_LINES`."""
    added: int
    """Number of added lines."""
    removed: int
    """Number of removed lines."""
    cut: bool
    """True where the diff, a source or a line was too long to show."""


def changes(before: str, after: str) -> SourceDiff:
    """Return the differences between two sources."""
    old, old_cut = shown_lines(before)
    new, new_cut = shown_lines(after)
    found = list(islice(unified_diff(old, new, n=CONTEXT_LINES, lineterm=""), 2, None))
    return SourceDiff(
        lines=tuple(found[:CHANGED_LINES]),
        added=sum(line.startswith("+") for line in found),
        removed=sum(line.startswith("-") for line in found),
        cut=old_cut or new_cut or len(found) > CHANGED_LINES,
    )


def shown_lines(source: str) -> tuple[list[str], bool]:
    """Return the lines of a source to show, and True where anything was cut."""
    whole = source.split("\n")
    lines = [clean(line[:LINE_CHARACTERS]) for line in whole[:SOURCE_LINES]]
    return lines, len(whole) > SOURCE_LINES or any(len(line) > LINE_CHARACTERS for line in whole)

"""Changes to a source as models write them: SEARCH/REPLACE blocks and unified diffs, all of them applied or none.

A text must be found exactly once, as written or with blanks at line ends ignored: a guess would give a kernel that
the model did not mean.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from operators.quoting import one_line

_SEARCH = re.compile(r"^[ \t]*<{5,9} ?SEARCH\b.*$")
_DIVIDER = re.compile(r"^[ \t]*={7}[ \t]*$")
_REPLACE = re.compile(r"^[ \t]*>{5,9} ?REPLACE\b.*$")
_HUNK = re.compile(r"^@@(?: -(?P<old>\d{1,9})(?:,(?P<count>\d+))? \+\d+(?:,\d+)? @@.*|.*)$")
_SHOWN = 80
_MOST_PLACES = 20
MOST_PARTS = 200

Lines = Sequence[str]


class PatchError(ValueError):
    """Error of a change that does not fit its source; the message names the part and the reason."""


@dataclass(frozen=True, slots=True)
class SearchReplace:
    """One SEARCH/REPLACE block."""

    search: tuple[str, ...]
    """Lines to find."""
    replace: tuple[str, ...]
    """Lines to put in their place."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk of a unified diff."""

    line: int | None
    """The place of its old lines, from 0; None where the diff names none."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of mark (blank, + or -) and text."""

    @property
    def old(self) -> list[str]:
        """Lines that the source must have."""
        return [text for mark, text in self.lines if mark != "+"]

    def made_from(self, there: Lines) -> list[str]:
        """Return the new lines; unchanged ones are taken from the source."""
        rest, made = iter(there), []
        for mark, text in self.lines:
            line = text if mark == "+" else next(rest)
            if mark != "-":
                made.append(line)
        return made


def has_edits(text: str) -> bool:
    """Say whether a text holds a line that opens a SEARCH/REPLACE block."""
    return any(_SEARCH.match(line) for line in text.split("\n"))


def read_edits(text: str) -> list[SearchReplace]:
    """Return the SEARCH/REPLACE blocks of a text, in order. Raises `PatchError` for one that is not complete."""
    edits: list[SearchReplace] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for line in text.split("\n"):
        if search is None:
            search = [] if _SEARCH.match(line) else None
        elif replace is None:
            if _SEARCH.match(line) or _REPLACE.match(line):
                raise PatchError(f"block {len(edits) + 1} has no line of seven = between its two parts")
            if _DIVIDER.match(line):
                replace = []
            else:
                search.append(line)
        elif _REPLACE.match(line):
            edits.append(SearchReplace(tuple(search), tuple(replace)))
            search = replace = None
        elif _SEARCH.match(line):
            break
        else:
            replace.append(line)
    if len(edits) > MOST_PARTS:
        raise PatchError(f"it has {len(edits)} blocks; a kernel that changes so much should be written anew")
    if search is not None:
        raise PatchError(f"block {len(edits) + 1} does not end with a line >>>>>>> REPLACE")
    return edits


def apply_edits(source: str, edits: Sequence[SearchReplace]) -> str:
    """Return the source with every block replaced.

    Places are those in the given source. Only a block that is not found there is looked for in the text that earlier
    blocks have made. Raises `PatchError` if a SEARCH text is empty, missing, found more than once, or overlaps another
    one.
    """
    try:
        return _at_once(source, edits)
    except PatchError:
        changed = source
        try:
            for number, edit in enumerate(edits, start=1):
                start, end = _span(changed, edit, number)
                changed = changed[:start] + _replacement(changed, edit, end) + changed[end:]
        except PatchError:
            pass
        else:
            return changed
        raise


def _at_once(source: str, edits: Sequence[SearchReplace]) -> str:
    spans = [(*_span(source, edit, number), number, edit) for number, edit in enumerate(edits, start=1)]
    spans.sort(key=lambda span: span[:2])
    for before, after in itertools.pairwise(spans):
        if after[0] < before[1]:
            raise PatchError(f"blocks {before[2]} and {after[2]} change the same lines")
    for start, end, _, edit in reversed(spans):
        source = source[:start] + _replacement(source, edit, end) + source[end:]
    return source


def _replacement(source: str, edit: SearchReplace, end: int) -> str:
    """Return the new text for a place that ends at `end`: with a line end where whole lines are replaced."""
    text = "\n".join(edit.replace)
    whole = source[end - 1 : end] == "\n"
    return text + "\n" if whole and edit.replace else text


def _span(source: str, edit: SearchReplace, number: int) -> tuple[int, int]:
    """Return where the SEARCH text of a block begins and ends."""
    if not any(line.strip() for line in edit.search):
        raise PatchError(f"block {number} has an empty SEARCH text")
    lines = source.removesuffix("\n").split("\n")
    for form in (_as_it_is, str.rstrip):
        found = _places(lines, edit.search, form)
        if len(found) > 1:
            raise PatchError(
                f"block {number}: its SEARCH text is there {_count(found)} times; it needs more lines around it"
            )
        if found:
            before = sum(len(line) + 1 for line in lines[: found[0]])
            inside = sum(len(line) + 1 for line in lines[found[0] : found[0] + len(edit.search)])
            return before, min(before + inside, len(source))
    text = "\n".join(edit.search)
    if source.count(text) == 1:  # part of a line
        start = source.index(text)
        return start, start + len(text)
    shown = one_line(next(line for line in edit.search if line.strip()), _SHOWN)
    raise PatchError(f"block {number}: its SEARCH text is not in the kernel; it begins with: {shown}")


def has_hunks(text: str) -> bool:
    """Say whether a text looks like a unified diff: a line that begins with @@, and lines that are added or removed."""
    lines = text.split("\n")
    start = next((index for index, line in enumerate(lines) if _HUNK.match(line)), None)
    return start is not None and any(line[:1] in ("+", "-") for line in lines[start + 1 :])


def read_hunks(text: str) -> list[Hunk]:
    """Return the hunks of a unified diff. Raises `PatchError` where there is none, or a line has no mark."""
    hunks: list[Hunk] = []
    lines = text.removesuffix("\n").split("\n")
    for index, line in enumerate(lines):
        head = _HUNK.match(line)
        if head:
            hunks.append(Hunk(_start(head)))
        elif hunks and not line.startswith("\\"):
            if line.startswith("--- ") and lines[index + 1 : index + 2] and lines[index + 1].startswith("+++ "):
                raise PatchError("the diff is of more than one file")
            if line[:1] not in ("", " ", "+", "-"):
                shown = one_line(line, _SHOWN)
                raise PatchError(f"hunk {len(hunks)}: a line begins with none of blank, + and -: {shown}")
            hunks[-1].lines.append((line[:1], line[1:]))
    if not hunks:
        raise PatchError("the diff has no line that begins with @@")
    if len(hunks) > MOST_PARTS:
        raise PatchError(f"the diff has {len(hunks)} hunks; a kernel that changes so much should be written anew")
    for hunk in hunks:
        while hunk.lines and hunk.lines[-1][0] == "":  # an empty line of the reply, not of the source
            hunk.lines.pop()
    return hunks


def _start(head: re.Match[str]) -> int | None:
    if head["old"] is None:
        return None
    return int(head["old"]) - (head["count"] != "0" and head["old"] != "0")  # of no lines: that of the one before


def apply_hunks(source: str, hunks: Sequence[Hunk]) -> str:
    """Return the source with every hunk applied.

    A hunk belongs at its line number. Where its lines are not there, it belongs at the one place behind the hunk before
    where they are. Raises `PatchError` if the lines of a hunk are missing, or found at several places.
    """
    lines = source.removesuffix("\n").split("\n") if source else []
    made: list[str] = []
    done = shift = 0
    for number, hunk in enumerate(hunks, start=1):
        start = _find(lines, hunk, number, after=done, shift=shift)
        shift = start - hunk.line if hunk.line is not None else shift
        end = start + len(hunk.old)
        made += lines[done:start] + hunk.made_from(lines[start:end])
        done = end
    made += lines[done:]
    return "\n".join(made) + "\n" if made else ""


def _find(lines: Lines, hunk: Hunk, number: int, *, after: int, shift: int) -> int:
    if not hunk.old:
        if hunk.line is None or not after <= hunk.line + shift <= len(lines):
            raise PatchError(f"hunk {number} only adds lines and does not say where; it needs lines around them")
        return hunk.line + shift
    for form in (_as_it_is, str.rstrip):
        for hint in (hunk.line, hunk.line + shift) if hunk.line is not None else ():
            there = lines[hint : hint + len(hunk.old)] if hint >= after else ()
            if [form(line) for line in there] == [form(line) for line in hunk.old]:
                return hint
        found = _places(lines, hunk.old, form, after=after)
        if len(found) == 1:
            return found[0]
        if found:
            raise PatchError(f"hunk {number} fits at {_count(found)} places; it needs more lines around it")
    shown = one_line(next((line for line in hunk.old if line.strip()), ""), _SHOWN)
    raise PatchError(f"hunk {number}: its lines are not in the kernel; they begin with: {shown}")


def _places(lines: Lines, wanted: Lines, form: Callable[[str], str], *, after: int = 0) -> list[int]:
    """Return the indices from `after` on at which the wanted lines stand, both brought into one form; only so many.

    Searches texts, not lists of lines: that takes time in proportion to them, however often a beginning repeats.
    """
    have, want = ("".join(f"\n{form(line)}" for line in each) + "\n" for each in (lines[after:], wanted))
    found: list[int] = []
    place, number = have.find(want), after
    counted = 0
    while place >= 0 and len(found) < _MOST_PLACES:
        number += have.count("\n", counted, place)
        counted = place
        found.append(number)
        place = have.find(want, place + 1)
    return found


def _count(found: Sequence[int]) -> str:
    return f"{len(found)} or more" if len(found) == _MOST_PLACES else str(len(found))


def _as_it_is(line: str) -> str:
    return line

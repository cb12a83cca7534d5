"""Regions: named parts of a source that kernels of different structure can exchange, the same lines in every language.

// region: pack                          (C++, and CUDA C++ in its string)
...
// endregion

# region: load                           (Python)
...
# endregion
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_WORDS = r"[^ \t\n](?:[^\n]*[^ \t\n])?"
_MARK = re.compile(
    r"^(?P<indent>[ \t]*)(?://|\#)[ \t]*"
    rf"(?:region:[ \t]*(?:(?P<name>{_WORDS})[ \t]*)?|(?P<end>endregion)(?::?[ \t]+(?:(?P<closed>{_WORDS})[ \t]*)?)?)$",
    re.MULTILINE,
)
_PAIRS = (("{", "}"), ("(", ")"), ("[", "]"))
_NAME = re.compile(r"[A-Za-z_][\w -]{0,39}")


@dataclass(frozen=True, slots=True)
class Region:
    """A named part of a source."""

    name: str
    """Its name, unique in the source."""
    indent: str
    """White space before its first mark."""
    start: int
    """Offset of the first character after its first mark's line."""
    end: int
    """Offset of its last mark."""
    text: str
    """The whole lines between its marks."""


@lru_cache(maxsize=512)
def read_regions(source: str) -> tuple[Region, ...]:
    """Return the regions of a source, in order.

    Raises `ValueError` if one lies in another, is not closed or closed by another name, or has a name that cannot be
    used or that another has.
    """
    found: dict[str, Region] = {}
    opened: re.Match[str] | None = None
    for mark in _MARK.finditer(source):
        name = _begun(mark)
        if name is None:
            if opened is None:
                continue  # an editor's folding mark that ends in the same word
            region = _between(source, opened, mark)
            if mark["closed"] not in (None, "", region.name):
                raise ValueError(f"{_line(mark)}: endregion {mark['closed']} closes the region {region.name!r}")
            found[region.name] = region
            opened = None
        elif opened is not None:
            raise ValueError(
                f"{_line(mark)}: region {name!r} begins inside region {opened['name']!r}; regions do not nest"
            )
        elif not _NAME.fullmatch(name):
            raise ValueError(f"{_line(mark)}: {name!r} is no name for a region: letters, digits, _, - and blanks")
        elif name in found:
            raise ValueError(f"{_line(mark)}: there is a region {name!r} already")
        else:
            opened = mark
    if opened is not None:
        raise ValueError(f"{_line(opened)}: region {opened['name']!r} is never closed by `endregion`")
    return tuple(found.values())


def with_regions(source: str, taken: Mapping[str, Region]) -> str:
    """Return the source with the contents of its regions of these names replaced, indented as they were.

    Raises:
        KeyError: the source has no region of one of the names.
        ValueError: its regions cannot be read.
    """
    own = {region.name: region for region in read_regions(source)}
    missing = taken.keys() - own.keys()
    if missing:
        raise KeyError(f"no region named {sorted(missing)}")
    pieces, at = [], 0
    for name, region in sorted(taken.items(), key=lambda item: own[item[0]].start):
        place = own[name]
        pieces += [source[at : place.start], _indented(region, place.indent)]
        at = place.end
    return "".join(pieces) + source[at:]


def outside(source: str) -> str:
    """Return the text outside all regions, marks included. Raises `ValueError` as `read_regions` does."""
    ends = [0, *(place for region in read_regions(source) for place in (region.start, region.end)), len(source)]
    return "".join(source[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True))


def only_whole(source: str) -> str:
    """Return the source without the marks of regions that are no longer whole, or that are there a second time.

    A change of the source by its structure may move, copy or drop a mark like any comment. A region that opens a
    bracket and does not close it is not whole.
    """
    keep: set[int] = set()
    seen: set[str] = set()
    opened: re.Match[str] | None = None
    for mark in _MARK.finditer(source):
        name = _begun(mark)
        if name is not None:
            opened = mark if _NAME.fullmatch(name) and name not in seen else None
        elif opened is not None:
            inside = source[opened.end() : mark.start()]
            paired = all(inside.count(left) == inside.count(right) for left, right in _PAIRS)
            if paired and mark["closed"] in (None, "", opened["name"]):
                keep |= {opened.start(), mark.start()}
                seen.add(opened["name"])
            opened = None
    pieces, at = [], 0
    for mark in _MARK.finditer(source):
        if mark.start() not in keep:
            pieces.append(source[at : mark.start()])
            at = min(mark.end() + 1, len(source))
    return "".join(pieces) + source[at:]


def _begun(mark: re.Match[str]) -> str | None:
    """Return the name of the region that a mark begins; None where it ends one."""
    return None if mark["end"] else mark["name"] or ""


def _line(mark: re.Match[str]) -> str:
    return f"line {mark.string.count(chr(10), 0, mark.start()) + 1}"


def _between(source: str, opened: re.Match[str], closed: re.Match[str]) -> Region:
    start = opened.end() + 1
    return Region(opened["name"], opened["indent"], start, closed.start(), source[start : closed.start()])


def _indented(region: Region, indent: str) -> str:
    """Return the lines of a region with another indent; a line with less indent keeps its own."""
    if region.indent == indent:
        return region.text
    lines = region.text.split("\n")
    return "\n".join(
        indent + line.removeprefix(region.indent) if line.strip() and line.startswith(region.indent) else line
        for line in lines
    )

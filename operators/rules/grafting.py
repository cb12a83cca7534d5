"""Grafting: regions of one source in the place of another's, where all names they need are present."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from evokernel.records.candidate import Candidate
from evokernel.source.regions import Region, outside, read_regions, with_regions
from evokernel.source.tunables import Tunable, TunableSpace, read_tunables
from operators.rules.name_check import check_names

MOST_COMBINED = 4
"""Number of shared regions up to which every combination is tried; of more, each by itself and all together."""

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class GraftedSource:
    """A source with regions of another in the place of its own."""

    regions: tuple[str, ...]
    """Names of the exchanged regions."""
    source: str
    """The new text."""
    id: str
    """Its id as a candidate."""


@lru_cache(maxsize=8192)  # more than there are pairs to look through at a step
def grafts(host: str, donor: str, language: str) -> tuple[GraftedSource, ...]:
    """Return every graft of the donor's regions that the host can take, in a fixed order; few regions first.

    Neither source is among them. A source whose regions cannot be read takes and gives nothing.
    """
    try:
        own = {region.name: region for region in read_regions(host)}
        theirs = {region.name: region for region in read_regions(donor)}
        spaces = read_tunables(host), read_tunables(donor)
    except ValueError:
        return ()
    shared = [name for name in own if name in theirs and _differ(own[name], theirs[name])]
    seen = {Candidate(text, language).id for text in (host, donor)}
    found = []
    for names in _combinations(shared):
        taken = {name: theirs[name] for name in names}
        child = Candidate(with_regions(host, taken), language)
        if child.id not in seen and _legal(child.source, host, donor, taken, spaces=spaces, language=language):
            seen.add(child.id)
            found.append(GraftedSource(names, child.source, child.id))
    return tuple(found)


def _combinations(names: list[str]) -> Iterator[tuple[str, ...]]:
    sizes = range(1, len(names) + 1) if len(names) <= MOST_COMBINED else (1, len(names))
    return itertools.chain.from_iterable(itertools.combinations(names, size) for size in sizes)


def _differ(one: Region, other: Region) -> bool:
    """Say whether two regions differ in more than their place on the line."""
    lines = ([line.strip() for line in region.text.split("\n")] for region in (one, other))
    return next(lines) != next(lines)


def _legal(
    child: str,
    host: str,
    donor: str,
    taken: dict[str, Region],
    *,
    spaces: tuple[TunableSpace, TunableSpace],
    language: str,
) -> bool:
    own, theirs = spaces
    try:
        space = read_tunables(child)
    except ValueError:  # a tunable declared twice, or a constraint on a missing one
        return False
    inserted = "\n".join(region.text for region in taken.values())
    if not space.allows(space.values) or not _values_suit(outside(host), home=own, here=space):
        return False
    if not _values_suit(inserted, home=theirs, here=space) or not _constraints_hold(inserted, home=theirs, here=space):
        return False
    return _names_hold(child, host, donor, language)


def _values_suit(text: str, *, home: TunableSpace, here: TunableSpace) -> bool:
    """Say whether each tunable in a text takes here only values that are allowed where the text comes from."""
    words, found = set(_WORD.findall(text)), {tunable.name: tunable for tunable in here.tunables}
    named = [tunable for tunable in home.tunables if tunable.name in words]
    return all(_no_more(found.get(tunable.name), tunable) for tunable in named)


def _no_more(here: Tunable | None, home: Tunable) -> bool:
    return here is not None and set(here.choices) <= set(home.choices)


def _constraints_hold(text: str, *, home: TunableSpace, here: TunableSpace) -> bool:
    words, kept = set(_WORD.findall(text)), {_plain(rule) for rule in here.constraints}
    tunables = {tunable.name for tunable in home.tunables}
    return all(_plain(rule) in kept or not tunables & words & set(_WORD.findall(rule)) for rule in home.constraints)


def _plain(rule: str) -> str:
    return "".join(rule.split())


def _names_hold(child: str, host: str, donor: str, language: str) -> bool:
    """Say whether the child has no fault of names that both its sources lack."""
    made, own, theirs = (check_names(text, language) for text in (child, host, donor))
    if made.breaks > own.breaks + theirs.breaks or not made.faults <= own.faults | theirs.faults:
        return False
    foreign = {name for name in made.unknown - own.unknown if not name.startswith("__") and not name.endswith("_cast")}
    return not foreign or theirs.headers <= made.headers
